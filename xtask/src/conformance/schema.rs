//! The table of known keys: which keys each document has in each release, and what kind of value stands under them.
//!
//! The oracle lists the types of Talos' own library; here they become one Rust table with the releases in which each key is
//! known. Only facts are taken over: names of keys, kinds of values, and how they merge.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::oracle::{Oracle, RELEASES, repository};

/// A field's place in the table: its struct, its key, what it holds and whether a merge replaces it.
type Field = (String, String, bool);

/// One kind of document: its root, and whether it is named, for control planes only, or a link; and its conflicts.
type Kind = (String, bool, bool, bool, Vec<String>);

/// Writes the table, or with `check` compares it.
pub fn run(check: bool) -> anyhow::Result<()> {
    let mut structs: BTreeMap<String, Vec<(Field, u32, u32)>> = BTreeMap::new();
    let mut kinds: BTreeMap<String, Vec<(Kind, u32, u32)>> = BTreeMap::new();
    let mut words: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for release in RELEASES.iter().rev() {
        let mut oracle = Oracle::start(release)?;
        let names: Vec<&str> = std::iter::once("v1alpha1").chain(talos::config::all_kinds()).collect();
        let answer = oracle.ask(&json!({"op": "schema", "kinds": names}))?;
        let schema = answer.map_err(anyhow::Error::msg)?;
        for (name, fields) in
            schema.pointer("/schema/structs").and_then(Value::as_object).context("structs")?
        {
            let known = structs.entry(name.clone()).or_default();
            for field in fields.as_array().context("fields")? {
                let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let replace = field.get("replace").and_then(Value::as_bool).unwrap_or_default();
                extend(known, (text("key"), text("type"), replace), release.minor);
            }
        }
        for (name, kind) in schema.pointer("/schema/kinds").and_then(Value::as_object).context("kinds")? {
            let flag = |key: &str| kind.get(key).and_then(Value::as_bool).unwrap_or_default();
            let root = kind.get("root").and_then(Value::as_str).context("root")?.to_owned();
            let conflicts = kind.get("conflicts").and_then(Value::as_array).into_iter().flatten();
            let mut conflicts: Vec<String> = conflicts.filter_map(Value::as_str).map(str::to_owned).collect();
            conflicts.sort();
            let kind = (root, flag("named"), flag("controlPlane"), flag("link"), conflicts);
            extend(kinds.entry(name.clone()).or_default(), kind, release.minor);
        }
        for (name, list) in schema.pointer("/schema/words").and_then(Value::as_object).context("words")? {
            let mut list = list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            let zero = list.next().unwrap_or_default();
            let known = words.entry(name.clone()).or_default();
            known.1.extend(list.chain((!zero.is_empty()).then(|| zero.clone())));
            known.0 = zero;
        }
    }
    let text = table(&structs, &kinds, &words)?;
    let path = path();
    if check {
        if std::fs::read_to_string(&path)? != text {
            bail!("{} is not what Talos' library says; run conformance --schema", path.display());
        }
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn path() -> PathBuf {
    repository().join("crates/talos/src/schema/table.rs")
}

/// Adds a release to what is known of an item, as one more release of the same or as a new item.
fn extend<T: PartialEq>(known: &mut Vec<(T, u32, u32)>, item: T, minor: u32) {
    match known.iter_mut().find(|(it, _, until)| *it == item && *until + 1 == minor) {
        Some((_, _, until)) => *until = minor,
        None => known.push((item, minor, minor)),
    }
}

fn table(
    structs: &BTreeMap<String, Vec<(Field, u32, u32)>>,
    kinds: &BTreeMap<String, Vec<(Kind, u32, u32)>>,
    words: &BTreeMap<String, (String, BTreeSet<String>)>,
) -> anyhow::Result<String> {
    let mut out = String::from(
        "//! Which keys each document has in each release. Generated from the types of Talos' own library by\n\
         //! `cargo run -p xtask -- conformance --schema`; not to be changed by hand.\n\n\
         use super::{Kind, Struct, Type::*, field, kind, replaced};\n\n\
         #[rustfmt::skip]\npub(super) static KINDS: &[Kind] = &[\n",
    );
    for (name, versions) in kinds {
        for ((root, named, control_plane, link, conflicts), since, until) in versions {
            writeln!(
                out,
                "    kind({name:?}, {root:?}, {named}, {control_plane}, {link}, &{conflicts:?}, {since}, {until}),"
            )?;
        }
    }
    out += "];\n\n#[rustfmt::skip]\npub(super) static STRUCTS: &[Struct] = &[\n";
    for (name, fields) in structs {
        write!(out, "    Struct {{ name: {name:?}, fields: &[")?;
        // Several to a line: the table is read by programs, and long enough.
        let mut width = usize::MAX;
        for ((key, kind, replace), since, until) in fields {
            let make = if *replace { "replaced" } else { "field" };
            let item = format!("{make}({key:?}, &{}, {since}, {until}),", rust_type(kind)?);
            if width.saturating_add(item.len()) > 150 {
                out += "\n        ";
                width = 8;
            } else {
                out.push(' ');
            }
            width += item.len() + 1;
            out += &item;
        }
        out += " ] },\n";
    }
    out += "];\n\n#[rustfmt::skip]\npub(super) static WORDS: &[(&str, &str, &[&str])] = &[\n";
    for (name, (zero, list)) in words {
        writeln!(out, "    ({name:?}, {zero:?}, &{list:?}),")?;
    }
    // A set is shown in braces.
    Ok(out.replace("&{", "&[").replace("}),\n", "]),\n") + "];\n")
}

/// The Rust form of the oracle's words for a type.
fn rust_type(words: &str) -> anyhow::Result<String> {
    let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
    Ok(match first {
        "text" => "Text".to_owned(),
        "bool" => "Bool".to_owned(),
        "int" => format!("Int({rest})"),
        "uint" => format!("Uint({rest})"),
        "time" => "Duration".to_owned(),
        "any" => "Any".to_owned(),
        "url" => "Url".to_owned(),
        "unstructured" => "Unstructured".to_owned(),
        "bytes" => format!("Bytes({rest:?})"),
        "enum" => format!("Enum({rest:?})"),
        "opaque" => format!("Opaque({rest:?})"),
        "ptr" => format!("Ptr(&{})", rust_type(rest)?),
        "list" => format!("List(&{})", rust_type(rest)?),
        "map" => format!("Map(&{})", rust_type(rest)?),
        other => match other.split_once(':') {
            Some((merger, inner)) => {
                format!("Merged({merger:?}, &{})", rust_type(format!("{inner} {rest}").trim())?)
            }
            None if rest.is_empty() => format!("Named({other:?})"),
            None => bail!("no type is called {words:?}"),
        },
    })
}
