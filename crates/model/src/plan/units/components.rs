//! Parts of Kubernetes on control plane nodes, one part after the other over all of these nodes.

use super::super::bring_up::{Builder, usual};
use super::super::kubernetes::ComponentUpgrade;
use super::outlook::Outlook;
use super::{Course, DraftStep, DraftUnit, told};
use crate::gate::{Blocker, Effect, Verdict};
use crate::names::NodeName;
use crate::step::{Action, Disruption, StepId, UnitId};
use crate::unit::Goal;
use crate::upgrade::Component;

impl Builder<'_> {
    /// Parts of Kubernetes other than kubelets, in the order of [`Component::ALL`].
    pub(super) fn component_units(&mut self, course: &mut Course) {
        let mut all = std::mem::take(&mut self.components);
        let proxy = std::mem::take(&mut self.proxy);
        for component in Component::ALL {
            let (mut own, others) = all.into_iter().partition(|it| it.change.component == component);
            all = others;
            self.in_order_of_restarts(&course.outlook, &mut own);
            let mut ends = vec![];
            for upgrade in own {
                match component.is_static_pod() {
                    true => self.component_unit(course, upgrade),
                    false => ends.push(self.component_in_place(course, upgrade)),
                }
            }
            course.chain.extend(ends);
        }
        if let Some((version, after)) = proxy.filter(|_| course.stalled.is_none()) {
            let after = [after, course.chain.clone()].concat();
            let reason = "kubelets follow once kube-proxy runs the version of the API servers";
            let step = self.push(Action::UpgradeProxy { version }, after, reason, usual::STATIC_POD);
            self.set_disruption(&step, Disruption::InPlace);
            course.chain = vec![step];
        }
    }

    fn in_order_of_restarts(&self, outlook: &Outlook, upgrades: &mut [ComponentUpgrade]) {
        let names: Vec<&NodeName> = upgrades.iter().map(|upgrade| &upgrade.node).collect();
        let nodes = self.in_order(outlook, &names);
        let order: Vec<NodeName> = nodes.into_iter().map(|node| node.name.clone()).collect();
        upgrades.sort_by_key(|upgrade| order.iter().position(|name| *name == upgrade.node));
    }

    /// A static pod, which its node starts again with another image.
    fn component_unit(&mut self, course: &mut Course, upgrade: ComponentUpgrade) {
        let ComponentUpgrade { node, change, after } = upgrade;
        // What comes before it is blocked, so it would be ahead.
        if course.stalled.is_some() {
            return;
        }
        let unit = UnitId(format!("{}/{node}", change.component));
        let version = change.wanted.clone();
        let action = Action::UpgradeComponent { node: node.clone(), component: change.component, version };
        let reason = format!("it runs {}", change.runs);
        let draft = DraftUnit {
            unit,
            node: node.clone(),
            goal: Goal::UpgradeKubernetes { node: node.clone() },
            disruption: Disruption::ServiceRestart,
            effect: Effect::Absence,
            acts: vec![DraftStep::new(action, reason, usual::STATIC_POD)],
            after,
            installs: true,
        };
        let verdict = course.outlook.ask(&draft.request());
        let may_wait = course.outlook.policy().api_outage || course.outlook.voters_of(self.blueprint) > 2;
        let stops = |blocker: &Blocker| !matches!(blocker, Blocker::OutsideWindow { .. });
        if let Verdict::Stop(blockers) | Verdict::Wait(blockers) = &verdict
            && !(may_wait && (matches!(verdict, Verdict::Wait(_)) || !blockers.iter().any(stops)))
        {
            let hint = blockers.first().map(Blocker::hint).unwrap_or_default();
            let what = format!(
                "Talosmith does not upgrade {} on {node} from {} to {}: {}",
                change.component,
                change.runs,
                change.wanted,
                told(blockers)
            );
            course.stalled = Some(node.clone());
            return self.block(&node, Disruption::ServiceRestart, what, hint.to_owned());
        }
        self.place(course, draft, 1);
    }

    /// What only the machine config says: nothing restarts.
    fn component_in_place(&mut self, course: &Course, upgrade: ComponentUpgrade) -> StepId {
        let ComponentUpgrade { node, change, after } = upgrade;
        let action = Action::UpgradeComponent { node, component: change.component, version: change.wanted };
        let after = [after, course.chain.clone()].concat();
        let step = self.push(action, after, format!("it says {}", change.runs), usual::GROW);
        self.set_disruption(&step, Disruption::InPlace);
        step
    }
}
