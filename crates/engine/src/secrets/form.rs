//! The comments above a bundle: its form, and for whom it is encrypted. To Talos and talosctl they mean nothing.

/// The form that this release writes, and the newest that it reads.
const FORM: u32 = 1;
const FORM_LINE: &str = "# talosmith-bundle: ";
const RECIPIENT: &str = "# recipient: ";

/// What stands above a bundle.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// For whom it says that it was encrypted: age does not tell.
    pub recipients: Vec<String>,
}

/// A bundle of a form that this release does not know.
#[derive(Debug, thiserror::Error)]
#[error("a newer Talosmith wrote it (form {0}, this one reads up to {FORM})")]
pub(super) struct NewerForm(String);

/// Reads the comments. Without a form it is of talosctl or of a release before there were forms.
pub(super) fn read(text: &str) -> Result<Header, NewerForm> {
    let mut header = Header::default();
    for line in comments(text) {
        if let Some(form) = line.strip_prefix(FORM_LINE) {
            let known = form.trim().parse::<u32>().is_ok_and(|form| form <= FORM);
            if !known {
                return Err(NewerForm(form.trim().to_owned()));
            }
        } else if let Some(recipient) = line.strip_prefix(RECIPIENT) {
            header.recipients.push(recipient.to_owned());
        }
    }
    Ok(header)
}

/// The comments of a bundle that is encrypted for these.
pub(super) fn header(recipients: &[String]) -> String {
    let lines = recipients.iter().map(|one| format!("{RECIPIENT}{one}\n"));
    std::iter::once(format!("{FORM_LINE}{FORM}\n")).chain(lines).collect()
}

/// What follows our own comments.
pub(super) fn body(text: &str) -> &str {
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n')
        && (line.starts_with(FORM_LINE) || line.starts_with(RECIPIENT))
    {
        rest = after;
    }
    rest
}

fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| line.starts_with('#'))
}
