//! "Did you mean": the known word that is fewest typing mistakes away.

/// The candidate nearest to `word`, if it is near enough to be what was meant.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(mistakes, candidate)| *mistakes <= allowed && *mistakes < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, remove, replace, or swap with their neighbour, ignoring case and `-` against `_`.
fn distance(a: &str, b: &str) -> usize {
    let fold = |s: &str| -> Vec<char> {
        s.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_slip_and_not_the_stranger() {
        let keys = ["gateway", "cidr", "vip", "bridge"];
        assert_eq!(nearest("gatway", keys), Some("gateway"));
        assert_eq!(nearest("cdir", keys), Some("cidr"));
        assert_eq!(nearest("VIP", keys), Some("vip"));
        assert_eq!(nearest("memory", keys), None);
        assert_eq!(nearest("x", ["a", "b"]), None);
        assert_eq!(nearest("pod-cidr", ["pod_cidr"]), Some("pod_cidr"));
    }
}
