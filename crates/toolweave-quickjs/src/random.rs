//! The numbers behind `Math.random`: xoshiro256++, seeded afresh for every run.
//!
//! The engine's own generator is seeded when a context is made, which for a forked worker is before the fork: every worker
//! would draw the same numbers.

use std::cell::Cell;

/// A generator that natives share.
#[derive(Debug, Default)]
pub(crate) struct Generator {
    state: Cell<[u64; 4]>,
}

impl Generator {
    pub(crate) fn seed(&self, seed: [u8; 32]) {
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(seed.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        // The all-zero state would stay zero for ever.
        state[0] |= u64::from(state == [0; 4]);
        self.state.set(state);
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    pub(crate) fn next(&self) -> f64 {
        let [mut a, mut b, mut c, mut d] = self.state.get();
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let t = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= t;
        d = d.rotate_left(45);
        self.state.set([a, b, c, d]);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let fraction = (result >> 11) as f64;
        fraction / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_the_seed_alone_and_stay_in_range() {
        let draw = |seed: [u8; 32]| {
            let generator = Generator::default();
            generator.seed(seed);
            (0..1000).map(|_| generator.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw([7; 32]), draw([7; 32]));
        assert_ne!(draw([7; 32]), draw([8; 32]));
        for seed in [[0; 32], [255; 32]] {
            let numbers = draw(seed);
            assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
            let mean = numbers.iter().sum::<f64>() / 1000.0;
            assert!((0.4..0.6).contains(&mean), "{mean}");
        }
    }
}
