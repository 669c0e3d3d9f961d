//! The order in which people count: `node-2` comes before `node-10`.

use std::cmp::Ordering;

/// Compares two names. Runs of digits count as numbers, everything else as letters.
#[must_use]
pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some(a), Some(b)) = (left.chars().next(), right.chars().next()) {
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (x, y) = (number(&mut left), number(&mut right));
            // Without leading zeros the longer number is the larger one.
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            left = &left[a.len_utf8()..];
            right = &right[b.len_utf8()..];
            a.cmp(&b)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    // `n01` and `n1` are the same number, but not the same name.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Takes the digits that a text starts with, and gives them without leading zeros.
fn number<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_as_people_count() {
        let mut names =
            ["b-2", "b-10", "b-1", "a", "b-01", "b", "b-2-x10", "b-2-x9", "é-10", "é-9", "b-", "10", "9"];
        names.sort_by(|one, other| compare(one, other));
        assert_eq!(
            names,
            ["9", "10", "a", "b", "b-", "b-01", "b-1", "b-2", "b-2-x9", "b-2-x10", "b-10", "é-9", "é-10"]
        );
        assert_eq!(compare("n99999999999999999999999", "n100000000000000000000000"), Ordering::Less);
    }
}
