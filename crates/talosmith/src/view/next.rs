//! Commands in text that people are told to type. They come from every part of the program, and only the command line knows which file
//! they are about and whether it is in the lab: what it says of that is added here.

use std::borrow::Cow;

/// How such a command starts.
const START: &str = "`talosmith ";

/// Commands that are about no cluster.
const OTHERS: &[&str] = &["init", "import", "explain", "completions", "man", "schema", "lab"];

/// The text, in which every command that is about a cluster has these options, which start with a space. One that has any of them
/// already was written for a certain file.
pub(super) fn with_flags<'t>(text: &'t str, flags: &str) -> Cow<'t, str> {
    if flags.is_empty() || !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut said = String::with_capacity(text.len() + flags.len());
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        let (before, from) = rest.split_at(at + START.len());
        said.push_str(before);
        let Some(end) = from.find('`') else {
            rest = from;
            break;
        };
        let (command, after) = from.split_at(end);
        let mut words = command.split_whitespace();
        let of_a_cluster = words.next().is_some_and(|first| !OTHERS.contains(&first));
        let (name, options) = command.split_at(name_length(command));
        said.push_str(name);
        if of_a_cluster && !words.any(|word| word == "--lab" || word == "-f") {
            said.push_str(flags);
        }
        said.push_str(options);
        rest = after;
    }
    said.push_str(rest);
    Cow::Owned(said)
}

/// How much of a command is its name, such as `secrets import`: its options and arguments come after the options that are added.
fn name_length(command: &str) -> usize {
    let is_name = |word: &str| word.bytes().all(|letter| letter.is_ascii_lowercase());
    let mut length = 0;
    for word in command.split(' ').take_while(|word| is_name(word)) {
        length += word.len() + usize::from(length > 0);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_20_a_command_to_type_next_means_the_same_cluster() {
        let text = "hint: `talosmith plan` shows it; save it with `talosmith plan -o FILE`, then `talosmith secrets import FILE`";
        assert_eq!(
            with_flags(text, " -f a.yaml --lab"),
            "hint: `talosmith plan -f a.yaml --lab` shows it; save it with `talosmith plan -f a.yaml --lab -o FILE`, then \
             `talosmith secrets import -f a.yaml --lab FILE`"
        );
        assert_eq!(with_flags(text, ""), text);
        for same in [
            "`talosmith plan --lab`",
            "`talosmith init`",
            "`talosmith lab up`",
            "`talosmith ",
            "talosmith plan",
        ] {
            assert_eq!(with_flags(same, " --lab"), same);
        }
    }
}
