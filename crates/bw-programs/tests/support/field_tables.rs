//! Checks a Markdown table of fields against the type that reads them.
//!
//! A table stands below the heading `### Fields of NAME`, with the columns Field, Range, Default and Meaning. A row with
//! the range `as OTHER` has fields that are those of the table OTHER. Serde's errors give the facts: the error about an
//! unknown field lists the fields of a type, the error about a missing field names a required one, and the error about
//! an unknown word lists the permitted words.

#![allow(clippy::unwrap_used, unreachable_pub)]

use serde_json::{Value, json};

/// Reads a document and returns the parsed value as text (`Debug`), or the error.
pub type Read<'a> = &'a dyn Fn(Value) -> Result<String, String>;

struct Field {
    name: String,
    range: String,
    default: String,
}

/// Checks the table `name` of `page`. `example` holds a value for every required field, and no other field; `read`
/// reads a document.
pub fn check(page: &str, name: &str, example: &Value, read: Read<'_>) {
    let fields = table(page, name);
    let mut names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
    let error = read(with(example, "no_such_field", json!(1))).expect_err(name);
    let mut expected = words(&error, "expected");
    names.sort();
    expected.sort();
    assert_eq!(names, expected, "{name}: documented, and read: {error}");
    for field in &fields {
        check_default(name, field, example, read);
        check_range(name, field, example, read);
    }
}

fn check_default(table: &str, field: &Field, example: &Value, read: Read<'_>) {
    let mut without = example.clone();
    without.as_object_mut().unwrap().remove(&field.name);
    let (place, absent) = (format!("{table}.{}", field.name), read(without));
    if field.default == "required" {
        let error = absent.expect_err(&place);
        let missing = format!("missing field `{}`", field.name);
        return assert!(error.contains(&missing), "{place}: {error}");
    }
    let value = serde_json::from_str(field.default.trim_matches('`')).expect(&place);
    let given = read(with(example, &field.name, value));
    assert_eq!(absent.expect(&place), given.expect(&place), "{place}");
}

/// Checks a field's range: its words are those that are read; the ends of `A to B` and `from A` are valid, values
/// beyond them are not.
fn check_range(table: &str, field: &Field, example: &Value, read: Read<'_>) {
    let place = format!("{table}.{}", field.name);
    let read = |value: Value| read(with(example, &field.name, value));
    let documented: Vec<String> = field
        .range
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    if field.range.starts_with("`\"") {
        let error = read(json!("no-such-word")).expect_err(&place);
        assert_eq!(documented, words(&error, "expected"), "{place}: {error}");
    }
    if field.range == "true or false" {
        assert!(
            read(json!(true)).is_ok() && read(json!(1)).is_err(),
            "{place}"
        );
    }
    let numbers: Vec<i64> = field
        .range
        .split([' ', ','])
        .filter_map(|word| word.parse().ok())
        .collect();
    let is_range = field.range.contains(" to ");
    match (field.range.split(' ').next(), numbers.as_slice()) {
        (Some("from"), [least]) => {
            read(json!(least)).expect(&place);
            if *least == 0 {
                read(json!(-1)).expect_err(&place);
            }
        }
        (_, [least, most]) if is_range => {
            read(json!(least)).expect(&place);
            read(json!(most)).expect(&place);
            read(json!(least - 1)).expect_err(&place);
            read(json!(most + 1)).expect_err(&place);
        }
        _ => {}
    }
    assert_eq!(
        read(Value::Null).is_ok(),
        field.range.ends_with("null"),
        "{place}: null"
    );
}

/// Returns the examples of the table below the heading `### NAME`: the text in backticks in the first column.
#[allow(dead_code)] // the launcher has no such table
pub fn examples(page: &str, name: &str) -> Vec<Value> {
    let rows = rows(page, &format!("### {name}"));
    let example = |row: Vec<String>| serde_json::from_str(row[0].trim_matches('`')).unwrap();
    rows.into_iter().map(example).collect()
}

/// Returns the texts in backticks after `mark`.
pub fn words(error: &str, mark: &str) -> Vec<String> {
    let behind = error.split_once(mark).map_or("", |(_, behind)| behind);
    behind
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn with(example: &Value, field: &str, value: Value) -> Value {
    let mut document = example.clone();
    document[field] = value;
    document
}

fn table(page: &str, name: &str) -> Vec<Field> {
    let rows = rows(page, &format!("### Fields of {name}"));
    rows.iter().flat_map(|row| fields(page, row)).collect()
}

/// Returns the field of a row, or those that it shares with another table.
fn fields(page: &str, row: &[String]) -> Vec<Field> {
    let names = row[0].split(", ").map(|name| name.trim_matches('`'));
    let Some(other) = row[1].strip_prefix("as ") else {
        return names
            .map(|name| Field {
                name: name.to_owned(),
                range: row[1].clone(),
                default: row[2].clone(),
            })
            .collect();
    };
    let names: Vec<_> = names.collect();
    let mut shared = table(page, other);
    shared.retain(|field| names.contains(&field.name.as_str()));
    assert_eq!(shared.len(), names.len(), "{names:?}: not all in {other}");
    shared
}

/// Returns the rows of the first table below a heading, without its head, as cells.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let behind = page.lines().skip_while(|line| *line != heading).skip(1);
    let section = behind.take_while(|line| !line.starts_with('#'));
    let table = section.skip_while(|line| !line.starts_with('|'));
    let cells = |line: &str| {
        line.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let lines = table.take_while(|line| line.starts_with('|')).skip(2);
    let rows: Vec<Vec<String>> = lines.map(cells).collect();
    assert!(!rows.is_empty(), "no table below {heading:?}");
    rows
}
