//! The `[measurement]` block: a row of what was measured, as text.
//!
//! Source: Auto-pilot paper, section 3.2; docs/launcher-protocol.md.

use std::fmt::Write;

/// What one block says.
#[derive(Debug)]
pub struct Block {
    /// 1..N.
    pub thread: u64,
    /// From 1.
    pub epoch: u64,
    /// On one line.
    pub command: String,
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// Elapsed time [ns].
    pub elapsed_ns: u64,
    /// None if the process could not be waited for: absent is not zero.
    pub usage: Option<libc::rusage>,
    /// What hooks add.
    pub values: Vec<(String, String)>,
}

impl Block {
    /// Returns it as text, with the empty line that ends it.
    pub fn text(&self) -> String {
        let mut text = format!(
            "[measurement]\nthread = {}\nepoch = {}\ncommand = {}\n",
            self.thread, self.epoch, self.command
        );
        // Writing to a string cannot fail.
        let _ = self.write_measured(&mut text);
        text.push('\n');
        text
    }

    fn write_measured(&self, text: &mut String) -> std::fmt::Result {
        if let Some(usage) = &self.usage {
            writeln!(text, "user = {}", seconds(usage.ru_utime))?;
            writeln!(text, "sys = {}", seconds(usage.ru_stime))?;
        }
        writeln!(text, "elapsed = {:.6}", self.elapsed_ns as f64 / 1e9)?;
        writeln!(text, "status = {}", self.status)?;
        if let Some(usage) = &self.usage {
            writeln!(text, "rss_bytes = {}", usage.ru_maxrss * 1024)?;
            writeln!(text, "minor_faults = {}", usage.ru_minflt)?;
            writeln!(text, "major_faults = {}", usage.ru_majflt)?;
            writeln!(text, "in_blocks = {}", usage.ru_inblock)?;
            writeln!(text, "out_blocks = {}", usage.ru_oublock)?;
            writeln!(text, "voluntary_switches = {}", usage.ru_nvcsw)?;
            writeln!(text, "involuntary_switches = {}", usage.ru_nivcsw)?;
        }
        for (name, value) in &self.values {
            writeln!(text, "{name} = {value}")?;
        }
        Ok(())
    }
}

fn seconds(time: libc::timeval) -> String {
    format!("{}.{:06}", time.tv_sec, time.tv_usec)
}

/// Returns the `name = value` lines that stand before any block.
pub fn values_of(text: &str) -> Vec<(String, String)> {
    text.lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Returns the whole blocks of a text, with the empty line that ends the last; or nothing.
pub fn blocks_of(text: &str) -> String {
    let mut blocks: String = text
        .lines()
        .skip_while(|line| !line.trim_start().starts_with('['))
        .filter(|line| !line.starts_with("# error: "))
        .flat_map(|line| [line, "\n"])
        .collect();
    if !blocks.is_empty() && !blocks.ends_with("\n\n") {
        blocks.push('\n');
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_reads_as_in_the_paper() {
        let block = Block {
            thread: 2,
            epoch: 3,
            command: "postmark /tmp/x".into(),
            status: 0,
            elapsed_ns: 5_470_682_999,
            usage: None,
            values: vec![("free_bytes".into(), "7".into())],
        };
        assert_eq!(
            block.text(),
            "[measurement]\nthread = 2\nepoch = 3\ncommand = postmark /tmp/x\n\
             elapsed = 5.470683\nstatus = 0\nfree_bytes = 7\n\n"
        );
    }

    #[test]
    fn values_end_where_blocks_begin() {
        let text = "a = 1\n# error: x = 2\nnoise\n b=2 = 3 \n[block]\nc = 3\n";
        let values = values_of(text);
        let expected = [("a", "1"), ("b", "2 = 3")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(values, expected);
        assert_eq!(blocks_of(text), "[block]\nc = 3\n\n");
        assert_eq!(blocks_of("a = 1\n"), "");
    }
}
