//! Which place each dimension has among a call's units on a route.
//!
//! A dimension that the config counts keeps its place, so older grants stay readable; the place of one that it no
//! longer counts may become another's. Grants from before have nothing at the limits of that one, since these are
//! younger.
//!
//! A known dimension gets the place that it has in a call's cost, if that is free. On most routes all of them do, and
//! a call's units are its cost as it stands.

use crate::model::call::{Cost, known_index};
use crate::model::dimension::Dimension;
use crate::model::{SLOT, Units};

/// The dimensions of a route by place.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dims: [Option<Dimension>; SLOT as usize],
    /// Whether each of them stands where a call's cost has it.
    as_in_cost: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { dims: Default::default(), as_in_cost: true }
    }
}

impl Layout {
    /// The dimension at a place of the units.
    pub fn dimension(&self, slot: u8) -> Option<&Dimension> {
        self.dims.get(slot as usize)?.as_ref()
    }

    /// Gives each of the dimensions in use its place. The engine has checked that there is room for them.
    pub fn lay_out(&mut self, used: &[Dimension]) {
        for dimension in used {
            if self.slot(dimension) != SLOT {
                continue;
            }
            let own = known_index(dimension).filter(|place| self.dims[*place].is_none());
            // From the last on, which are no known dimension's own or seldom used.
            let free = || self.dims.iter().rposition(Option::is_none);
            let is_unused = |known: &Option<Dimension>| known.as_ref().is_some_and(|it| !used.contains(it));
            let unused = || self.dims.iter().position(is_unused);
            if let Some(place) = own.or_else(free).or_else(unused) {
                self.dims[place] = Some(dimension.clone());
            }
        }
        let at_home = |(place, dimension): (usize, &Option<Dimension>)| {
            dimension.as_ref().is_none_or(|dimension| known_index(dimension) == Some(place))
        };
        self.as_in_cost = self.dims.iter().enumerate().all(at_home);
    }

    /// Whether a call's known units are laid out as this.
    #[inline(always)]
    pub fn as_in_cost(&self) -> bool {
        self.as_in_cost
    }

    /// A call's cost in the layout of this route.
    pub fn units_of(&self, cost: &Cost) -> Units {
        let mut units = *cost.known();
        if !self.as_in_cost {
            self.rearrange(cost, &mut units);
        }
        units
    }

    fn rearrange(&self, cost: &Cost, units: &mut Units) {
        for (units, dimension) in units.iter_mut().zip(&self.dims) {
            *units = dimension.as_ref().map_or(0, |dimension| cost.units(dimension));
        }
    }

    pub fn slot(&self, dimension: &Dimension) -> u8 {
        let place = self.dims.iter().position(|known| known.as_ref() == Some(dimension));
        place.map_or(SLOT, |place| place as u8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, subsequence};

    use super::*;

    fn all() -> Vec<Dimension> {
        use Dimension::{Bytes, InputTokens, MicroUsd, OutputTokens, Requests, Tokens};
        let customs = ["credits", "inputs", "points"].map(|name| Dimension::Custom(name.into()));
        let known = [Requests, Tokens, InputTokens, OutputTokens, Bytes, MicroUsd];
        known.into_iter().chain(customs).collect()
    }

    #[test]
    fn known_dimensions_are_counted_where_the_cost_has_them() {
        let mut layout = Layout::default();
        layout.lay_out(&[Dimension::Tokens, Dimension::Requests]);
        assert!(layout.as_in_cost);
        layout.lay_out(&[Dimension::Tokens, Dimension::Custom("credits".into())]);
        assert!(!layout.as_in_cost);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_dimension_in_use_has_its_units_and_keeps_its_place(
            configs in prop::collection::vec(subsequence(all(), 0..=7), 1..6),
            stated in prop::collection::vec((any::<Index>(), 0_u64..1000), 0..9),
        ) {
            let mut cost = Cost::new();
            for (which, units) in stated {
                cost.set(which.get(&all()).clone(), units);
            }
            let mut layout = Layout::default();
            let mut before: Vec<(Dimension, u8)> = Vec::new();
            for used in configs {
                layout.lay_out(&used);
                let units = layout.units_of(&cost);
                prop_assert_eq!(units[SLOT as usize], 1);
                for dimension in &used {
                    let slot = layout.slot(dimension);
                    prop_assert!(slot < SLOT);
                    prop_assert_eq!(layout.dimension(slot), Some(dimension));
                    prop_assert_eq!(units[slot as usize], cost.units(dimension));
                }
                let kept = before.iter().filter(|(dimension, _)| used.contains(dimension));
                for (dimension, slot) in kept {
                    prop_assert_eq!(layout.slot(dimension), *slot);
                }
                before = used.into_iter().map(|it| (it.clone(), layout.slot(&it))).collect();
            }
        }
    }
}
