//! R-MAT graphs: each edge recursively chooses one of the four quarters of the matrix. Duplicates
//! and self-loops are not removed here, and edges are not stored: they need no memory.
//!
//! The nodes are all ids `0 .. 2^scale`, including isolated ones. Without the permutation, ids with
//! many zero bits are the hubs; with it, ids are unrelated to degrees.
//!
//! Labels are optional: some nodes get one of a few classes at random, half of them for training and
//! a quarter each for validation and test. The features of every node are a noisy indicator of its
//! class, so that a model has something to learn.
//!
//! Four levels are drawn at once from an alias table (Walker 1977; Vose 1991), with 32 random bits.

use ignn_format::labels::Labels;
use ignn_format::random::Sequence;
use ignn_format::splits::{NO_PART, Split};

use crate::content::{Content, Features};
use crate::error::Result;
use crate::synthetic::{draw_split, require};

/// Logarithm to base 2 of the number of ids.
pub const SCALE: u32 = 16;
/// Edges per id.
pub const EDGE_FACTOR: u64 = 16;
/// Probabilities of the four quarters: both ids low, high target, high source, both high.
pub const QUARTERS: [f64; 4] = [0.57, 0.19, 0.19, 0.05];

/// Number of classes, where there are labels.
pub const CLASSES: u32 = 8;
/// Standard deviation of the noise on the indicator of the class.
const NOISE: f64 = 1.0;

/// Largest scale: a dataset can have one node less than 2^32.
const MAX_SCALE: u32 = 31;
/// Edges per chunk.
const CHUNK: u64 = 1 << 18;
/// Levels drawn at once.
const LEVELS: u32 = 4;
/// Random bits that choose between the two outcomes of a column of the table.
const FRACTION_BITS: u32 = 24;

/// Options of `ignn generate rmat`.
#[derive(Clone, Debug, PartialEq)]
pub struct RmatOptions {
    /// Logarithm to base 2 of the number of ids, 1 to 31.
    pub scale: u32,
    /// Edges to draw, including duplicates and self-loops; by default `edge_factor` per id.
    pub edges: Option<u64>,
    /// Edges per id.
    pub edge_factor: u64,
    /// Probabilities of the four quarters: both ids low, high target, high source, both high.
    pub quarters: [f64; 4],
    /// Shuffle the ids.
    pub permute: bool,
    /// Keep the direction of the edges.
    pub directed: bool,
    /// Number of nodes with a label; without any, there are no features either.
    pub labels: u64,
    /// Number of classes and of feature columns, 2 to 64.
    pub classes: u32,
}

impl Default for RmatOptions {
    fn default() -> Self {
        Self {
            scale: SCALE,
            edges: None,
            edge_factor: EDGE_FACTOR,
            quarters: QUARTERS,
            permute: true,
            directed: false,
            labels: 0,
            classes: CLASSES,
        }
    }
}

/// A graph with checked options.
pub struct Rmat {
    scale: u32,
    edges: u64,
    stream: Sequence,
    /// Tables of four levels, and of the remaining levels.
    four: Table,
    rest: Option<Table>,
    permutation: Option<Permutation>,
    classes: u32,
    class_stream: Sequence,
    noise_stream: Sequence,
    /// Which nodes have a label.
    split: Option<Split>,
}

impl Rmat {
    /// Checks the options and prepares the tables.
    pub fn new(options: &RmatOptions, seed: u64) -> Result<Self> {
        let command = "generate rmat";
        let RmatOptions { scale, quarters, .. } = *options;
        require((1..=MAX_SCALE).contains(&scale), || {
            format!("{command}: scale {scale} (expected 1 to {MAX_SCALE})")
        })?;
        let sum: f64 = quarters.iter().sum();
        // `contains` rejects NaN too.
        let valid = quarters.iter().all(|p| (0.0..=1.0).contains(p)) && (sum - 1.0).abs() < 1e-6;
        require(valid, || {
            format!("{command}: quarters {quarters:?} (expected four probabilities that sum to 1)")
        })?;
        let edges = options.edges.or_else(|| options.edge_factor.checked_mul(1 << scale));
        require(edges.is_some_and(|edges| edges > 0), || {
            format!(
                "{command}: no edges, or more than 2^64 (expected --edges or --edge-factor of at \
                 least 1)"
            )
        })?;
        let (nodes, labels, classes) = (1 << scale, options.labels, options.classes);
        require(labels <= nodes, || {
            format!("{command}: {labels} labels (expected at most one per node: {nodes})")
        })?;
        require((2..=64).contains(&classes), || {
            format!("{command}: --classes {classes} (expected 2 to 64)")
        })?;
        let split = (labels > 0).then(|| {
            let counts = [labels - labels / 4 * 2, labels / 4, labels / 4];
            draw_split(Sequence::new(seed, "rmat split"), nodes, counts)
        });
        let rest = scale % LEVELS;
        Ok(Self {
            classes,
            class_stream: Sequence::new(seed, "rmat classes"),
            noise_stream: Sequence::new(seed, "rmat features"),
            split,
            scale,
            edges: edges.unwrap_or(0),
            stream: Sequence::new(seed, "rmat edges"),
            four: Table::new(LEVELS, &quarters),
            rest: (rest > 0).then(|| Table::new(rest, &quarters)),
            permutation: options
                .permute
                .then(|| Permutation::new(scale, Sequence::new(seed, "rmat ids"))),
        })
    }

    fn class(&self, node: u64) -> u32 {
        (self.class_stream.fork(node).bits() % u64::from(self.classes)) as u32
    }

    fn draw(&self, stream: &mut Sequence) -> [u32; 2] {
        let (mut source, mut target) = (0u32, 0u32);
        // 32 bits per draw: the upper half of the same number serves the second draw.
        let mut bits = 0u64;
        for turn in 0..self.scale / LEVELS {
            bits = if turn.is_multiple_of(2) { stream.bits() } else { bits >> 32 };
            let outcome = self.four.draw(bits as u32);
            source = source << LEVELS | u32::from(outcome[0]);
            target = target << LEVELS | u32::from(outcome[1]);
        }
        if let Some(rest) = &self.rest {
            bits = if (self.scale / LEVELS).is_multiple_of(2) { stream.bits() } else { bits >> 32 };
            let outcome = rest.draw(bits as u32);
            source = source << rest.levels | u32::from(outcome[0]);
            target = target << rest.levels | u32::from(outcome[1]);
        }
        [source, target]
    }
}

impl Content for Rmat {
    fn nodes(&self) -> u64 {
        1 << self.scale
    }

    fn edge_chunks(&self) -> u64 {
        self.edges.div_ceil(CHUNK)
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let mut stream = self.stream.fork(chunk);
        let count = CHUNK.min(self.edges - chunk * CHUNK);
        edges.reserve(count as usize);
        match &self.permutation {
            Some(ids) => {
                edges.extend((0..count).map(|_| self.draw(&mut stream).map(|id| ids.of(id))));
            }
            None => edges.extend((0..count).map(|_| self.draw(&mut stream))),
        }
    }

    fn edges(&self) -> Option<u64> {
        Some(self.edges)
    }

    fn features(&self) -> Option<Features<'_>> {
        let columns = self.classes as usize;
        let fill = move |first: u64, rows: &mut [f32]| {
            for (node, row) in (first..).zip(rows.chunks_exact_mut(columns)) {
                let mut stream = self.noise_stream.fork(node);
                row.fill_with(|| (NOISE * stream.normal()) as f32);
                row[self.class(node) as usize] += 1.0;
            }
        };
        self.split.as_ref().map(|_| Features::Dense { columns, fill: Box::new(fill) })
    }

    fn labels(&self) -> Option<Labels> {
        let split = self.split.as_ref()?;
        let of = (0..).zip(&split.of).map(|(node, &part)| match part {
            NO_PART => -1,
            _ => self.class(node) as i32,
        });
        let classes = (0..self.classes).map(|class| class.to_string()).collect();
        Some(Labels::Single { classes, of: of.collect() })
    }

    fn splits(&self) -> Vec<Split> {
        self.split.iter().cloned().collect()
    }
}

/// An alias table over the `4^levels` outcomes of some levels.
struct Table {
    levels: u32,
    columns: Vec<Column>,
}

/// The outcomes of a column below and above its threshold.
#[derive(Clone, Copy, Default)]
struct Column {
    threshold: u32,
    below: [u8; 2],
    above: [u8; 2],
}

impl Table {
    fn new(levels: u32, quarters: &[f64; 4]) -> Self {
        let count = 1usize << (2 * levels);
        let mut outcomes = vec![[0u8; 2]; count];
        let mut share = vec![count as f64; count];
        for (index, (outcome, share)) in outcomes.iter_mut().zip(&mut share).enumerate() {
            for level in 0..levels {
                let quarter = index >> (2 * level) & 3;
                *share *= quarters[quarter];
                outcome[0] |= ((quarter >> 1) << level) as u8;
                outcome[1] |= ((quarter & 1) << level) as u8;
            }
        }
        // Vose's method: columns below the average are filled up from columns above it.
        let mut columns = vec![Column::default(); count];
        let (mut small, mut large): (Vec<_>, Vec<_>) =
            (0..count).partition(|&index| share[index] < 1.0);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            let threshold = (share[low] * f64::from(1u32 << FRACTION_BITS)).round() as u32;
            columns[low] = Column { threshold, below: outcomes[low], above: outcomes[high] };
            share[high] -= 1.0 - share[low];
            if share[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        for index in small.into_iter().chain(large) {
            let (threshold, outcome) = (1 << FRACTION_BITS, outcomes[index]);
            columns[index] = Column { threshold, below: outcome, above: outcome };
        }
        Self { levels, columns }
    }

    fn draw(&self, bits: u32) -> [u8; 2] {
        let column = self.columns[(bits >> (32 - 2 * self.levels)) as usize];
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        if fraction < column.threshold { column.below } else { column.above }
    }
}

/// A bijection of `0 .. 2^bits` without a table: multiplications by odd factors and shifts, which
/// are invertible.
struct Permutation {
    mask: u32,
    shift: u32,
    rounds: [[u32; 2]; 3],
}

impl Permutation {
    fn new(bits: u32, mut stream: Sequence) -> Self {
        let mut round = || [stream.bits() as u32 | 1, stream.bits() as u32];
        Self {
            mask: u32::MAX >> (32 - bits),
            shift: bits.div_ceil(2),
            rounds: [round(), round(), round()],
        }
    }

    fn of(&self, id: u32) -> u32 {
        self.rounds.iter().fold(id, |id, [factor, addend]| {
            let id = id.wrapping_mul(*factor).wrapping_add(*addend) & self.mask;
            id ^ id >> self.shift
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_have_their_probabilities_on_every_level() {
        let options = RmatOptions {
            scale: 7,
            edges: Some(400_000),
            permute: false,
            ..RmatOptions::default()
        };
        let rmat = Rmat::new(&options, 5).unwrap();
        let mut edges = Vec::new();
        (0..rmat.edge_chunks()).for_each(|chunk| rmat.edge_chunk(chunk, &mut edges));
        assert_eq!(edges.len(), 400_000);
        for level in 0..7 {
            let mut counts = [0.0; 4];
            for [u, v] in &edges {
                counts[((u >> level & 1) << 1 | v >> level & 1) as usize] += 1.0 / 400_000.0;
            }
            for (found, expected) in counts.iter().zip(QUARTERS) {
                assert!((found - expected).abs() < 0.005, "level {level}: {counts:?}");
            }
        }
        // Levels are independent: two of the same table and two of different ones.
        for (one, other) in [(0, 2), (3, 5)] {
            let both =
                edges.iter().filter(|[u, v]| (u | v) >> one & 1 == 0 && (u | v) >> other & 1 == 0);
            let share = both.count() as f64 / 400_000.0;
            assert!((share - 0.57 * 0.57).abs() < 0.005, "{share}");
        }
    }

    #[test]
    fn the_permutation_is_one() {
        for bits in [1, 2, 3, 7, 12] {
            let permutation = Permutation::new(bits, Sequence::new(9, "p"));
            let mut images: Vec<u32> = (0..1 << bits).map(|id| permutation.of(id)).collect();
            images.sort_unstable();
            assert!(images.iter().copied().eq(0..1 << bits));
        }
        let largest = Permutation::new(31, Sequence::new(9, "p"));
        assert!((0..1000).all(|id| largest.of(id * 2_000_003) < 1 << 31));
    }

    #[test]
    fn some_nodes_have_labels_and_all_have_features() {
        let options = RmatOptions { scale: 10, labels: 101, ..RmatOptions::default() };
        let rmat = Rmat::new(&options, 5).unwrap();
        let Some(Labels::Single { classes, of }) = rmat.labels() else { panic!() };
        assert_eq!((classes.len(), of.len()), (8, 1024));
        assert_eq!(of.iter().filter(|&&label| label >= 0).count(), 101);
        let splits = rmat.splits();
        let sizes = [0, 1, 2].map(|part| splits[0].of.iter().filter(|&&of| of == part).count());
        assert_eq!(sizes, [51, 25, 25]);
        let Some(Features::Dense { columns: 8, fill }) = rmat.features() else { panic!() };
        let (mut rows, mut one) = (vec![0.0; 8 * 1024], vec![0.0; 8]);
        fill(0, &mut rows);
        fill(700, &mut one);
        assert_eq!(one, rows[700 * 8..701 * 8]);
        let own: f32 =
            (0..1024).map(|node| rows[node * 8 + rmat.class(node as u64) as usize]).sum();
        assert!((own / 1024.0 - 1.0).abs() < 0.15, "{own}");
        assert!(Rmat::new(&RmatOptions::default(), 5).unwrap().labels().is_none());
    }

    #[test]
    fn bad_options_are_reported() {
        let message = |options| Rmat::new(&options, 1).err().unwrap().to_string();
        let default = RmatOptions::default();
        assert_eq!(
            message(RmatOptions { scale: 32, ..default }),
            "generate rmat: scale 32 (expected 1 to 31)"
        );
        assert_eq!(
            message(RmatOptions { quarters: [0.5, 0.5, 0.5, 0.0], ..default }),
            "generate rmat: quarters [0.5, 0.5, 0.5, 0.0] (expected four probabilities that sum to \
             1)"
        );
        assert_eq!(
            message(RmatOptions { scale: 3, labels: 9, ..default }),
            "generate rmat: 9 labels (expected at most one per node: 8)"
        );
        assert_eq!(
            message(RmatOptions { classes: 1, ..default }),
            "generate rmat: --classes 1 (expected 2 to 64)"
        );
        assert_eq!(
            message(RmatOptions { edge_factor: 0, ..default }),
            "generate rmat: no edges, or more than 2^64 (expected --edges or --edge-factor of at \
             least 1)"
        );
    }
}
