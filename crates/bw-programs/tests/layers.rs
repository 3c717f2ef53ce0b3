//! The files of each crate form layers: no chain of paths from file to file returns to its start.
//!
//! Tests within files are excluded: they may use what is above them.

// A test may unwrap: its panic is the report.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_file_depends_on_itself() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = subfolders(crates);
    assert!(folders.len() > 5, "the crates are not at {crates:?}");
    let cycles: Vec<_> = folders
        .into_iter()
        .map(|folder| (cycle(dependencies(&folder.join("src"))), folder))
        .filter(|(cycle, _)| !cycle.is_empty())
        .collect();
    assert!(cycles.is_empty(), "these depend on each other: {cycles:#?}");
}

/// Returns the modules that are part of a cycle, or depend on one.
fn cycle(mut uses: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    loop {
        let free = |of: &BTreeSet<String>| of.iter().all(|used| !uses.contains_key(used));
        let free: Vec<_> = uses
            .iter()
            .filter(|(_, of)| free(of))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            return uses.into_keys().collect();
        }
        uses.retain(|name, _| !free.contains(name));
    }
}

/// Returns, for the module of each file, the modules whose files it uses.
fn dependencies(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let files = files(source);
    let module = |file: &PathBuf| {
        let path = file.strip_prefix(source).unwrap().with_extension("");
        path.to_str().unwrap().replace('/', "::")
    };
    let names: BTreeSet<String> = files.iter().map(module).collect();
    let used = |file: &PathBuf| {
        let own = module(file);
        let paths = paths(&own, &fs::read_to_string(file).unwrap());
        let modules = paths.iter().filter_map(|path| longest(path, &names));
        modules.filter(|name| *name != own).collect::<BTreeSet<_>>()
    };
    files
        .iter()
        .map(|file| (module(file), used(file)))
        .collect()
}

/// Returns the paths within the crate that the file of the module `own` names, from the root of the crate: those that
/// begin with `crate::`, `super::` or `self::`, and those that begin with a module that the file declares.
fn paths(own: &str, text: &str) -> Vec<String> {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let lines: Vec<&str> = lines.collect();
    let inside = if own == "lib" {
        String::new()
    } else {
        format!("{own}::")
    };
    let beside = own
        .rfind("::")
        .map_or(String::new(), |end| own[..end + 2].to_owned());
    let mut prefixes = vec![
        ("crate".to_owned(), String::new()),
        ("super".to_owned(), beside),
        ("self".to_owned(), inside.clone()),
    ];
    let declared = lines.iter().filter_map(|line| {
        let (_, name) = line.strip_suffix(';')?.split_once("mod ")?;
        Some((name.to_owned(), format!("{inside}{name}::")))
    });
    prefixes.extend(declared);
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let words = lines
        .iter()
        .flat_map(|line| line.split(|character| !is_path(character)));
    words
        .filter_map(|word| {
            let (first, rest) = word.split_once("::")?;
            let (_, prefix) = prefixes.iter().find(|(name, _)| name == first)?;
            Some(format!("{prefix}{rest}"))
        })
        .collect()
}

/// Returns the module that a path leads to: its longest prefix that is a module.
fn longest(path: &str, names: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<_> = path.split("::").collect();
    let beginnings = (1..=parts.len())
        .rev()
        .map(|length| parts[..length].join("::"));
    beginnings.into_iter().find(|name| names.contains(name))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let below = subfolders(folder)
        .into_iter()
        .filter(|folder| folder.file_name().unwrap() != "bin");
    let mut files: Vec<_> = below.flat_map(|folder| files(&folder)).collect();
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")));
    files.retain(|file| !file.ends_with("tests.rs"));
    files
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn a_cycle_is_found() {
    let uses = |of: &[&str]| {
        of.iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let names = [
        ("a", uses(&["b"])),
        ("b", uses(&["c"])),
        ("c", uses(&["b"])),
        ("d", uses(&[])),
    ];
    let graph = names
        .into_iter()
        .map(|(name, of)| (name.to_owned(), of))
        .collect();
    assert_eq!(cycle(graph), uses(&["a", "b", "c"]));
}

#[test]
fn each_way_to_name_a_module_is_read() {
    let text = "pub(crate) mod e;\nuse crate::a::B; // crate::c\nuse std::fs;\n\
        fn f(x: crate::d::{X}, y: super::g::Y, z: self::h::Z) { e::new() }\n#[cfg(test)]\nuse crate::i;";
    let found = ["a::B", "d::", "p::g::Y", "p::q::h::Z", "p::q::e::new"];
    assert_eq!(paths("p::q", text), found);
}
