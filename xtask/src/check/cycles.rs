//! Which top-level module of a crate names which: none may name, by any way, a module that names it.
//!
//! Two modules that name each other can only be read, tested and moved together. The compiler allows it inside a crate, so
//! it is checked here, as the borders are between crates. What only tests use does not count, and neither does the root of
//! a crate, which names all of its modules; but a name that the root re-exports counts as the module that has it.

use std::collections::{BTreeMap, BTreeSet};

use super::code;
use super::sources::Source;

/// Which module names which, and the first file that does.
type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// Every circle of modules, with the edges that make it.
pub fn problems(files: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for file in files {
        let Some((name, path)) = file.path.split_once("/src/") else { continue };
        let name = name.rsplit('/').next().unwrap_or(name);
        crates.entry(name).or_default().push((path, &file.text));
    }
    crates.iter().flat_map(|(name, files)| circles(name, &edges(files))).collect()
}

/// The circles of one crate, each as one message.
fn circles(name: &str, edges: &Edges) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|module| (module.as_str(), reached(edges, module))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut found = vec![];
    let mut said = BTreeSet::new();
    for module in edges.keys().filter(|module| reaches(module, module)) {
        if !said.insert(module.as_str()) {
            continue;
        }
        let others = edges.keys().filter(|other| reaches(module, other) && reaches(other, module));
        let circle: BTreeSet<&str> = others.map(String::as_str).collect();
        said.extend(&circle);
        let mut lines = vec![];
        for (from, to) in edges.iter().filter(|(from, _)| circle.contains(from.as_str())) {
            let inside = to.iter().filter(|(to, _)| circle.contains(to.as_str()));
            lines.extend(inside.map(|(to, file)| format!("  {from} -> {to} in src/{file}")));
        }
        found.push(format!(
            "modules of {name} name each other in a circle; move what two of them need below both:\n{}",
            lines.join("\n")
        ));
    }
    found
}

fn reached<'a>(edges: &'a Edges, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(at) = next.pop() {
        for to in edges.get(at).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    reached
}

/// The edges of one crate, whose files are given by their path under `src`.
fn edges(files: &[(&str, &str)]) -> Edges {
    let code: Vec<(&str, String)> = files.iter().map(|(path, text)| (*path, code::plain(text))).collect();
    let tests: Vec<String> = files.iter().flat_map(|(path, text)| code::test_files(path, text)).collect();
    let of_tests = |path: &str| {
        tests.iter().any(|test| {
            path.strip_prefix(test.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    let modules: BTreeSet<&str> = files.iter().filter_map(|(path, _)| top(path)).collect();
    let roots = code.iter().filter(|(path, _)| top(path).is_none());
    let exported: BTreeMap<String, String> = roots.flat_map(|(_, code)| code::imports(code)).collect();
    let mut edges = Edges::new();
    for (path, code) in code.iter().filter(|(path, _)| !of_tests(path)) {
        let Some(from) = top(path) else { continue };
        for name in code::names_of_root(code, depth(path)) {
            let to = if modules.contains(name.as_str()) { Some(&name) } else { exported.get(&name) };
            if let Some(to) = to.filter(|to| *to != from && modules.contains(to.as_str())) {
                edges.entry(from.to_owned()).or_default().entry(to.clone()).or_insert((*path).to_owned());
            }
        }
    }
    edges
}

/// The top-level module that a file belongs to; none for the root of the crate.
fn top(path: &str) -> Option<&str> {
    let first = path.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main", "bin"].contains(&module)).then_some(module)
}

/// How many modules deep a file is: 1 for a top-level module.
fn depth(path: &str) -> usize {
    path.strip_suffix("/mod.rs").unwrap_or(path).split('/').count()
}

#[cfg(test)]
mod tests {
    use super::super::sources::source;
    use super::*;

    fn problems_of(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<Source> = files.iter().map(|(path, text)| source((*path).to_owned(), text)).collect();
        problems(&files)
    }

    #[test]
    fn h4_a_circle_is_shown_with_one_file_for_each_edge() {
        let found = problems_of(&[
            ("crates/a/src/lib.rs", "mod load; mod check; mod spec; mod plan;"),
            ("crates/a/src/load.rs", "use crate::check;\nuse crate::spec::Spec;"),
            ("crates/a/src/load/tree.rs", "use crate::check::near;"),
            ("crates/a/src/check/names.rs", "fn f() { crate::{plan::x, load}; }"),
            ("crates/a/src/plan.rs", "use super::load::Loaded;"),
            ("crates/a/src/spec.rs", "fn f() {}"),
            ("crates/b/src/lib.rs", "use a::load;"),
        ]);
        assert_eq!(
            found,
            ["modules of a name each other in a circle; move what two of them need below both:\n  \
              check -> load in src/check/names.rs\n  \
              check -> plan in src/check/names.rs\n  \
              load -> check in src/load.rs\n  \
              plan -> load in src/plan.rs"]
        );
    }

    #[test]
    fn h4_what_the_root_exports_belongs_to_its_module() {
        let root = "pub mod client;\npub use error::{Error, kinds::{self, Kind as What}};\nmod error;";
        for name in ["crate::Error", "crate::What", "crate::kinds::All", "super::Error"] {
            let found = problems_of(&[
                ("crates/a/src/lib.rs", root),
                ("crates/a/src/client.rs", &format!("fn f() -> {name} {{}}")),
                ("crates/a/src/error/mod.rs", "use super::client;"),
            ]);
            assert_eq!(found.len(), 1, "{name}");
        }
    }

    #[test]
    fn h4_tests_comments_and_texts_name_nothing() {
        let found = problems_of(&[
            ("crates/a/src/lib.rs", "mod load; mod check;"),
            ("crates/a/src/check.rs", "use crate::load;"),
            (
                "crates/a/src/load.rs",
                "//! As [`crate::check`] says.\n/* crate::check /* crate::check */ */\n\
                 fn f<'a>(c: char) -> &'a str { if c == '\"' { r#\"crate::check\"#} else { \"\\\"crate::check\" } }\n\
                 #[cfg(test)]\nuse crate::check::fine;\n\
                 #[cfg(test)]\n#[path = \"load_cases.rs\"]\nmod cases;\n\
                 #[cfg(test)]\nmod fixtures;\n\
                 #[cfg(test)]\nmod tests { use crate::check; fn f() { crate::check::g() } }",
            ),
            ("crates/a/src/load_cases.rs", "use crate::check;"),
            ("crates/a/src/load/fixtures/more.rs", "use crate::check;"),
            ("crates/a/src/load/tree.rs", "use super::check; fn f() { super::load::x() }"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
