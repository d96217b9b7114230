//! The limit of all functions together.

use std::time::Instant;

use super::{Effect, Image, Reason, Stage, State};

impl State {
    /// Whether one more instance may be started. If a function needs its first one, the instance that idled longest
    /// makes place for it.
    pub(super) fn has_place(
        &mut self,
        image: &Image,
        needed: bool,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(most) = self.settings.most_instances else { return true };
        if self.homes.len() < most {
            return true;
        }
        needed && self.homes.len() == most && self.displace_for(image, now, effects)
    }

    fn displace_for(&mut self, image: &Image, now: Instant, effects: &mut Vec<Effect>) -> bool {
        let functions = self.functions.iter().filter(|(other, _)| *other != image);
        let idle = functions.filter_map(|(image, function)| {
            let kept = self.limits.get(image).unwrap_or(&self.defaults).min_pods_per_function;
            function.longest_idle(kept, now).map(|(since, id)| (since, id, image.clone()))
        });
        let Some((_, id, image)) = idle.min_by_key(|(since, id, _)| (*since, *id)) else { return false };
        if let Some(instance) = self.functions.get_mut(&image).and_then(|function| function.instance(id)) {
            instance.stage = Stage::Leaving(Reason::Displaced);
        }
        self.settle(&image, now, effects);
        !self.homes.contains_key(&id)
    }
}
