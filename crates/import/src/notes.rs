//! What there is to say about a translation, each with its place in the input.

use model::diagnostic::{Diagnostic, Source, Span, codes};
use model::load::is_secret;
use model::load::{Scalar, Tree};

/// An expression that could not be evaluated.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) span: Span,
    pub(super) why: String,
}

/// Notes in the making.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) list: Vec<Diagnostic>,
    /// Where secrets stood, to be masked.
    pub(super) secrets: Vec<Span>,
}

impl Notes {
    fn say(&mut self, code: &'static str, span: Span, message: &str, help: &str) {
        let mut note = Diagnostic::warning(code, message).at_span(span);
        if !help.is_empty() {
            note = note.help(help);
        }
        self.list.push(note);
    }

    /// Something that could not be carried over.
    pub(super) fn lost(&mut self, span: Span, message: &str) {
        self.say(codes::IMPORT_LOST, span, message, "");
    }

    /// Something that the input says and nothing in it makes use of.
    pub(super) fn unused(&mut self, message: &str) {
        self.list.push(Diagnostic::warning(codes::IMPORT_LOST, message));
    }

    /// Something that is different now, or that a person must do.
    pub(super) fn changed(&mut self, span: Span, message: &str, help: &str) {
        self.say(codes::IMPORT_CHANGED, span, message, help);
    }

    /// A value that the input does not say, and the module or we chose.
    pub(super) fn assumed(&mut self, message: &str) {
        self.list.push(Diagnostic::warning(codes::IMPORT_ASSUMED, message));
    }

    /// A secret that became a reference.
    pub(super) fn secret(&mut self, span: Span, name: &str, reference: &str) {
        self.secrets.push(span);
        let message = format!("`{name}` is a secret; the file refers to it as `{reference}`");
        self.say(codes::IMPORT_SECRET, span, &message, "put it there, and renew it if it was ever committed");
    }

    /// A secret that has no counterpart here.
    pub(super) fn lost_secret(&mut self, span: Span, name: &str) {
        self.secrets.push(span);
        self.lost(span, &format!("`{name}` is a secret that has no counterpart here"));
    }

    /// An expression whose value is missing.
    pub(super) fn not_evaluated(&mut self, sources: &[Source], trouble: &Trouble) {
        let span = trouble.span;
        let written = sources.get(span.source).and_then(|source| source.text.get(span.start..span.end));
        let shown: String =
            written.unwrap_or_default().lines().next().unwrap_or_default().chars().take(80).collect();
        let message = format!("`{shown}` was not evaluated: {}", trouble.why);
        let help = "write its value instead, and import again, or set the value in the result";
        self.say(codes::IMPORT_EXPRESSION, span, &message, help);
    }

    /// Marks everything in the input that is a secret by its name or form, so that no line shows it.
    pub(super) fn hide_secrets(&mut self, tree: &Tree) {
        match tree {
            Tree::Map { entries, .. } => {
                for (key, _, value) in entries {
                    match value {
                        Tree::Scalar { span, raw, value: Scalar::Text }
                            if names_secret(key) && !raw.is_empty() =>
                        {
                            self.secrets.push(*span);
                        }
                        other => self.hide_secrets(other),
                    }
                }
            }
            Tree::List { items, .. } => items.iter().for_each(|item| self.hide_secrets(item)),
            Tree::Scalar { span, raw, .. } if is_secret(raw) => self.secrets.push(*span),
            Tree::Scalar { .. } => {}
        }
    }
}

/// Whether what stands under a key is most likely a secret.
pub(super) fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let plain = ["path", "file", "id", "enabled", "name"].iter().any(|end| key.ends_with(end));
    !plain
        && ["token", "secret", "password", "passphrase", "auth_pass", "private_key", "access_key"]
            .iter()
            .any(|w| key.contains(w))
}
