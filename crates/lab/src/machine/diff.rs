//! How a machine shows the difference between two configurations.
//!
//! It writes both again in the order of its own types before it compares, so the order of keys, comments and quotes make no difference.

use talos::config::{Documents, Map};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Of longer texts, after what is the same at both ends, everything counts as changed.
const LONGEST: usize = 4_000_000;

/// The difference between the configuration that a machine of a minor release has and another; nothing where there is none.
pub(super) fn difference(old: &str, new: &str, minor: u32) -> String {
    let (Ok(before), Ok(after)) = (Documents::parse(old), Documents::parse(new)) else {
        return unified(old, new);
    };
    let identity = |document: &Map| {
        let text = |key| document.text(key).unwrap_or_default().to_owned();
        (text("kind"), text("name"))
    };
    let mut ordered: Vec<Map> = vec![];
    for document in before.iter() {
        ordered.extend(after.iter().find(|other| identity(other) == identity(document)).cloned());
    }
    let added = after.iter().filter(|new| !before.iter().any(|old| identity(old) == identity(new)));
    ordered.extend(added.cloned());
    let mut after = Documents::default();
    ordered.into_iter().for_each(|document| after.push(document));
    unified(&before.in_release_order(minor).to_yaml(), &after.in_release_order(minor).to_yaml())
}

/// One line of a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// A unified difference of two texts; nothing where they are the same.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = compared(&a, &b);
    let changed: Vec<usize> =
        (0..lines.len()).filter(|number| !matches!(lines[*number], Line::Same(_))).collect();
    let Some((first, rest)) = changed.split_first() else { return String::new() };
    // Changes that are near each other are shown together.
    let mut hunks = vec![(*first, *first)];
    for number in rest {
        match hunks.last_mut() {
            Some(hunk) if number - hunk.1 <= 2 * CONTEXT + 1 => hunk.1 = *number,
            _ => hunks.push((*number, *number)),
        }
    }
    let mut text = "--- a\n+++ b\n".to_owned();
    for (first, last) in hunks {
        let (from, to) = (first.saturating_sub(CONTEXT), (last + 1 + CONTEXT).min(lines.len()));
        let count = |lines: &[Line<'_>]| {
            let old = lines.iter().filter(|line| !matches!(line, Line::New(_))).count();
            let new = lines.iter().filter(|line| !matches!(line, Line::Gone(_))).count();
            (old, new)
        };
        let ((old_before, new_before), (old, new)) = (count(&lines[..from]), count(&lines[from..to]));
        let range = |before: usize, count: usize| {
            let first = if count == 0 { before } else { before + 1 };
            if count == 1 { first.to_string() } else { format!("{first},{count}") }
        };
        text += &format!("@@ -{} +{} @@\n", range(old_before, old), range(new_before, new));
        for line in &lines[from..to] {
            let (mark, line) = match line {
                Line::Same(line) => (' ', line),
                Line::Gone(line) => ('-', line),
                Line::New(line) => ('+', line),
            };
            text.extend([mark]);
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The lines of both texts, with as many as possible the same.
fn compared<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (rest_a, rest_b) = (&a[head..], &b[head..]);
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (mid_a, mid_b) = (&rest_a[..rest_a.len() - tail], &rest_b[..rest_b.len() - tail]);
    let mut lines: Vec<Line<'a>> = a[..head].iter().map(|line| Line::Same(line)).collect();
    if mid_a.len().saturating_mul(mid_b.len()) > LONGEST {
        lines.extend(mid_a.iter().map(|line| Line::Gone(line)));
        lines.extend(mid_b.iter().map(|line| Line::New(line)));
    } else {
        lines.extend(longest_common(mid_a, mid_b));
    }
    lines.extend(a[a.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

fn longest_common<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    // How many lines the rests from each pair of places on have in common.
    let width = b.len() + 1;
    let mut common = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, vec![]);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(Line::Same(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(Line::Gone(a[i]));
            i += 1;
        } else {
            lines.push(Line::New(b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_three_lines_around() {
        assert_eq!(
            unified("a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nd\nx\ne\nf\ng\n"),
            "--- a\n+++ b\n@@ -2,6 +2,7 @@\n b\n c\n d\n+x\n e\n f\n g\n"
        );
        assert_eq!(unified("", "a\nb\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", "a\n"), "");
    }

    #[test]
    fn changes_far_apart_do_not_take_what_is_between() {
        let old: String = (0..20).map(|n| format!("{n}\n")).collect();
        let new = old.replacen("2\n", "two\n", 1).replacen("17\n", "", 1);
        assert_eq!(
            unified(&old, &new),
            "--- a\n+++ b\n@@ -1,6 +1,6 @@\n 0\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -15,6 +15,5 @@\n 14\n 15\n 16\n-17\n 18\n 19\n"
        );
    }

    #[test]
    fn the_order_of_keys_and_the_look_of_values_are_no_difference() {
        let old = "version: v1alpha1\nmachine:\n    type: worker\n    token: a\ncluster: {}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n";
        let same = "kind: HostnameConfig\napiVersion: v1alpha1\nhostname: \"x\"\n---\ncluster: {}\n# by hand\nmachine: {token: 'a', type: worker}\nversion: v1alpha1\n";
        assert_eq!(difference(old, same, 13), "");
        let other = same.replace("'a'", "b");
        assert_eq!(
            difference(old, &other, 13),
            "--- a\n+++ b\n@@ -1,7 +1,7 @@\n version: v1alpha1\n machine:\n     type: worker\n-    token: a\n+    token: b\n cluster: {}\n ---\n apiVersion: v1alpha1\n"
        );
        assert!(difference("", "a: 1\n", 13).ends_with("@@ -0,0 +1 @@\n+a: 1\n"));
    }

    /// As row 507 of the recordings: keys in the order of Talos, and the mode of a file in octal.
    #[test]
    fn leftover_new_keys_stand_where_talos_writes_them() {
        let old = "version: v1alpha1\nmachine:\n    type: worker\n    install: {wipe: false}\n    features: {diskQuotaSupport: true}\n";
        let new = format!("{old}    files: [{{op: create, path: /var/x, permissions: 420, content: hi}}]\n");
        let wanted = "\n         wipe: false\n+    files:\n+        - content: hi\n+          permissions: 0o644\n+          path: /var/x\n+          op: create\n     features:\n";
        let told = difference(old, &new, 13);
        assert!(told.contains(wanted), "{told}");
    }
}
