//! A plan as Markdown, for a pull request. The same plan is always the same text: no times, no colours, no widths.

use std::io::{self, Write};

use model::plan::Plan;
use model::step::{Disruption, Step};

use super::ink::clean;
use super::plan::{
    BLOCKED, UNKNOWN, Verb, class_of, class_of_step, does_not_match, groups, in_the_way, named, not_known,
    outlook, summary, waiting,
};

/// Writes the plan.
///
/// # Errors
/// When writing fails.
pub fn write(w: &mut dyn Write, plan: &Plan, verb: Verb) -> io::Result<()> {
    let title = if verb == Verb::Destroy { "Destroy" } else { "Plan" };
    writeln!(w, "## {title} for `{}`\n", plan.cluster)?;
    if !plan.refusals.is_empty() {
        writeln!(w, "**Refused.** Talosmith makes no changes, because {}:\n", in_the_way(&plan.refusals))?;
        for refusal in &plan.refusals {
            writeln!(w, "- {}\n  - hint: {}", escaped(&refusal.why), escaped(&refusal.hint))?;
        }
        if !waiting(plan).is_empty() {
            writeln!(w, "\nOtherwise, Talosmith would make these changes:\n")?;
        }
        for step in waiting(plan) {
            writeln!(w, "- {} ({})", escaped(&step.action.describe()), escaped(&step.reason))?;
        }
    } else if plan.steps.is_empty() && !plan.blocked.is_empty() {
        writeln!(w, "{}", escaped(&does_not_match(plan)))?;
    } else if plan.steps.is_empty() && !plan.unknown.is_empty() {
        writeln!(w, "{}", escaped(&not_known(plan)))?;
    } else if plan.steps.is_empty() {
        writeln!(w, "No changes.")?;
    } else {
        writeln!(w, "{}\n", escaped(&summary(plan)))?;
        writeln!(w, "| step | why | disruption |\n| --- | --- | --- |")?;
        for group in groups(plan) {
            let title = escaped(&group.title);
            match group.unit {
                Some(unit) => {
                    let (outlook, class) = (escaped(&outlook(plan, unit)), class_of(unit));
                    writeln!(w, "| **{title}** | {outlook} | **{class}** |")?;
                }
                None => writeln!(w, "| **{title}** | | |")?,
            }
            for step in group.steps {
                let (what, why) = (escaped(&step.action.describe()), escaped(&step.reason));
                writeln!(w, "| {what} | {why} | {} |", disruption(step))?;
            }
        }
    }
    if !plan.blocked.is_empty() {
        writeln!(w, "\n**{BLOCKED}:**\n")?;
        for blocked in &plan.blocked {
            let disruption = named(blocked.disruption);
            writeln!(
                w,
                "- {} (**{disruption}**)\n  - hint: {}",
                escaped(&blocked.what),
                escaped(&blocked.hint)
            )?;
        }
    }
    if !plan.unknown.is_empty() {
        writeln!(w, "\n**{UNKNOWN}:**\n")?;
        for note in &plan.unknown {
            writeln!(w, "- {}", escaped(&note.text))?;
        }
    }
    if !plan.notes.is_empty() {
        writeln!(w, "\n**To know:**\n")?;
        for note in &plan.notes {
            writeln!(w, "- {}", escaped(&note.text))?;
        }
    }
    Ok(())
}

fn disruption(step: &Step) -> String {
    if step.disruption == Disruption::None {
        return named(Disruption::None);
    }
    format!("**{}**", class_of_step(step))
}

/// On one line, with nothing that Markdown, HTML or a table would take for its own. No letter is left out of it, our own
/// backticks neither: in the same text stand names that others chose, and what looks like code or a comment could hide steps.
fn escaped(text: &str) -> String {
    let mut line = String::new();
    for (at, letter) in clean(text).chars().enumerate() {
        match letter {
            // HTML knows no backslash.
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '&' => line.push_str("&amp;"),
            '`' | '|' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' | '!' | '$' | '{' | '}' => {
                line.extend(['\\', letter]);
            }
            // At the beginning these are a list.
            '-' | '+' if at == 0 => line.extend(['\\', letter]),
            _ => line.push(letter),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use model::plan::{Note, Refusal, RefusalCode};

    use super::super::plan::tests::{destroy_of_two, one_more, plan_of};
    use super::*;

    fn text(plan: &Plan, verb: Verb) -> String {
        let mut text = Vec::new();
        write(&mut text, plan, verb).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_plan_is_a_table() {
        let mut plan = one_more();
        plan.notes.push(Note { text: "a|b *c*".into() });
        insta::assert_snapshot!(text(&plan, Verb::Apply), @r"
        ## Plan for `home`

        home: 1 image to download, 1 VM to create, no disruption, about 2 min.

        | step | why | disruption |
        | --- | --- | --- |
        | **Images** | | |
        | register schematic 376567988ad3 with the Image Factory | the file asks for it and no VM of ours is it | no disruption |
        | download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2 | the file asks for it and no VM of ours is it | no disruption |
        | **home-work-3** | | |
        | create home-work-3, VM 150023 on pve2, disk on local-zfs | the file asks for it and no VM of ours is it | no disruption |
        | start home-work-3 | the file asks for it and no VM of ours is it | no disruption |
        | configure home-work-3 | the file asks for it and no VM of ours is it | no disruption |
        | wait for home-work-3 to join | the file asks for it and no VM of ours is it | no disruption |
        | **Cluster** | | |
        | check that the cluster is healthy | the file asks for it and no VM of ours is it | no disruption |

        **To know:**

        - a\|b \*c\*
        ");
    }

    #[test]
    fn a_disruption_is_a_row_with_what_is_left_of_the_cluster() {
        let told = text(&super::super::plan::tests::restarts(), Verb::Apply);
        let row = "| **power cycle home-control-1** | 2 of 3 voters healthy meanwhile, quorum holds; about 1 min | **power cycle** |\n";
        assert!(told.contains(row), "{told}");
        assert!(told.contains("memory 4096 MiB → 8192 MiB"), "{told}");
    }

    #[test]
    fn first_use_4_markdown_names_what_is_not_done() {
        let mut plan = plan_of(vec![]);
        plan.blocked.push(super::super::plan::tests::removed());
        let told = text(&plan, Verb::Apply);
        assert!(!told.contains("No changes"), "{told}");
        assert!(
            told.contains("- home-work-3 is not in the file (**delete**)\n  - hint: remove it yourself"),
            "{told}"
        );
    }

    #[test]
    fn removals_refusals_and_nothing() {
        assert!(text(&destroy_of_two(), Verb::Destroy).contains("| **delete** |"));
        assert_eq!(text(&plan_of(vec![]), Verb::Apply), "## Plan for `home`\n\nNo changes.\n");
        let mut plan = plan_of(vec![]);
        let code = RefusalCode::ForeignMachine;
        plan.refusals.push(Refusal { code, why: "a foreign VM".into(), hint: "free it".into() });
        assert!(text(&plan, Verb::Apply).contains("- a foreign VM\n  - hint: free it\n"));
        assert!(text(&plan, Verb::Apply).contains("because of this:"));
        plan.refusals.push(Refusal {
            code,
            why: "`vmid` of a_b".into(),
            hint: "give `a_b|c` another `".into(),
        });
        let two = text(&plan, Verb::Apply);
        assert!(two.contains("because of these:"), "{two}");
        assert!(two.contains("- \\`vmid\\` of a\\_b\n  - hint: give \\`a\\_b\\|c\\` another \\`\n"), "{two}");
    }

    #[test]
    fn by_reading_7_text_of_a_server_cannot_hide_steps() {
        for hostile in
            ["`<!--`", "<!-- x", "``` x", "a\n<details>", "$x$", "[a](b)", "![a](b)", "&lt;", "a|b\n| c"]
        {
            let mut plan = destroy_of_two();
            plan.steps[0].reason = hostile.to_owned();
            plan.notes.push(Note { text: hostile.to_owned() });
            let shown = text(&plan, Verb::Destroy);
            let bare = shown.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "");
            assert!(!bare.contains(['<', '>', '&']), "{shown}");
            let line = shown.lines().filter(|line| !line.starts_with("## ")).collect::<Vec<_>>().join("\n");
            let active = |text: &str| {
                text.char_indices()
                    .any(|(at, letter)| "`[]$!".contains(letter) && !text[..at].ends_with('\\'))
            };
            assert!(!active(&line), "{shown}");
            let rows = shown.lines().filter(|line| line.starts_with('|')).count();
            let wanted = text(&destroy_of_two(), Verb::Destroy);
            assert_eq!(rows, wanted.lines().filter(|line| line.starts_with('|')).count(), "{shown}");
        }
    }
}
