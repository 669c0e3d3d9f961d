//! What machine configuration is made of: the keys that each release knows, and the kind of value under each.
//!
//! The table is generated; here is how it is read. Merging and validation both walk a configuration beside its types, so
//! that neither has a list of its own of what Talos knows.

pub(crate) mod check;
mod table;

/// The oldest release in the table. Older ones are looked up as this one.
const OLDEST_MINOR: u32 = 10;

/// What stands under a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Any scalar, taken as text.
    Text,
    /// True or false. Only where it is not optional; an optional one is [`Type::Ptr`] of this.
    Bool,
    /// A whole number of so many bits.
    Int(u32),
    /// A whole number of so many bits that is not negative.
    Uint(u32),
    /// A duration such as `5m`.
    Duration,
    /// Bytes in a text form.
    Bytes(&'static str),
    /// A word out of a few, or a number with a text form.
    Enum(&'static str),
    /// A value with a form of its own.
    Opaque(&'static str),
    /// A URL, merged part by part.
    Url,
    /// Anything.
    Any,
    /// A mapping of anything.
    Unstructured,
    /// A value that may be absent, which is not the same as zero.
    Ptr(&'static Type),
    List(&'static Type),
    /// A mapping with free keys.
    Map(&'static Type),
    /// A mapping with known keys, by the name of its type.
    Named(&'static str),
    /// A value with its own rule for merging.
    Merged(&'static str, &'static Type),
}

/// One key of a mapping, in the releases that know it so.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) kind: &'static Type,
    /// A merge takes the new value in place of the old, where it would else append or merge.
    pub(crate) replace: bool,
    since: u32,
    until: u32,
}

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Struct {
    name: &'static str,
    fields: &'static [Field],
}

/// A kind of document.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) root: &'static str,
    /// Several of it may stand in a configuration, told apart by `name`.
    pub(crate) named: bool,
    pub(crate) control_plane_only: bool,
    /// It configures the link that it is named after; only one document may do that.
    pub(crate) link: bool,
    /// Kinds that may not have a document of the same name beside it.
    pub(crate) conflicts: &'static [&'static str],
    since: u32,
    until: u32,
}

const fn field(key: &'static str, kind: &'static Type, since: u32, until: u32) -> Field {
    Field { key, kind, replace: false, since, until }
}

const fn replaced(key: &'static str, kind: &'static Type, since: u32, until: u32) -> Field {
    Field { key, kind, replace: true, since, until }
}

#[expect(clippy::too_many_arguments, reason = "only the generated table calls it, one kind a line")]
const fn kind(
    name: &'static str,
    root: &'static str,
    named: bool,
    control_plane_only: bool,
    link: bool,
    conflicts: &'static [&'static str],
    since: u32,
    until: u32,
) -> Kind {
    Kind { name, root, named, control_plane_only, link, conflicts, since, until }
}

/// Every kind of document that a release in the table knows.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    table::KINDS.iter().map(|kind| kind.name)
}

/// The kind of document of a name; `v1alpha1` is the one without a kind.
pub(crate) fn kind_of(name: &str, minor: u32) -> Option<&'static Kind> {
    let minor = minor.max(OLDEST_MINOR);
    table::KINDS.iter().find(|kind| kind.name == name && (kind.since..=kind.until).contains(&minor))
}

/// The keys of a type that a release knows.
pub(crate) fn fields_of(name: &str, minor: u32) -> impl Iterator<Item = &'static Field> {
    let minor = minor.max(OLDEST_MINOR);
    let index = table::STRUCTS.binary_search_by(|it| it.name.cmp(name)).ok();
    let fields = index.map(|index| table::STRUCTS[index].fields).unwrap_or_default();
    fields.iter().filter(move |field| (field.since..=field.until).contains(&minor))
}

/// The words that a type has, where it has only a few. Those of newer releases are among them.
pub(crate) fn words_of(name: &str) -> Option<&'static [&'static str]> {
    table::WORDS.iter().find(|(known, ..)| *known == name).map(|(_, _, words)| *words)
}

/// The word that is zero in a type, which a merge takes for nothing.
pub(crate) fn zero_word_of(name: &str) -> Option<&'static str> {
    table::WORDS
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, zero, _)| *zero)
        .filter(|zero| !zero.is_empty())
}

/// One key of a type.
pub(crate) fn field_of(name: &str, key: &str, minor: u32) -> Option<&'static Field> {
    fields_of(name, minor).find(|field| field.key == key)
}

/// The first release that knows a key of a type, where a release does.
pub(crate) fn first_release_of(name: &str, key: &str) -> Option<u32> {
    let index = table::STRUCTS.binary_search_by(|it| it.name.cmp(name)).ok()?;
    let fields = table::STRUCTS[index].fields.iter();
    fields.filter(|field| field.key == key).map(|field| field.since).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_name_in_it_is_known() {
        assert!(table::STRUCTS.is_sorted_by(|a, b| a.name < b.name));
        fn inner(kind: &Type) -> &Type {
            match kind {
                Type::Ptr(kind) | Type::List(kind) | Type::Map(kind) | Type::Merged(_, kind) => inner(kind),
                kind => kind,
            }
        }
        for item in table::STRUCTS {
            for field in item.fields {
                if let Type::Named(name) = inner(field.kind) {
                    assert!(table::STRUCTS.iter().any(|it| it.name == *name), "{name}");
                }
            }
        }
    }

    #[test]
    fn kinds_come_with_the_release_that_the_other_list_says() {
        for name in crate::config::all_kinds() {
            let since = crate::config::known_since(name).unwrap().max(OLDEST_MINOR);
            let first = (OLDEST_MINOR..=14).find(|minor| kind_of(name, *minor).is_some());
            assert_eq!(first, Some(since), "{name}");
            assert!(kind_of(name, 14).is_some(), "{name}");
        }
    }
}
