//! A stable radix sort of edges by (row, column), for buckets from a few records to hundreds of
//! millions. It runs on one thread and allocates nothing: the caller provides the scratch space.
//!
//! Above `IN_CACHE` bytes, the data is first split by the highest digit so that each part fits in
//! cache; below, plain least-significant-digit passes are used.

use crate::edges::spool::Edge;

/// Up to this many bytes, passes go over all of the data.
const IN_CACHE: usize = 1 << 20;
const MSD_BITS: u32 = 8;
const LSD_BITS: u32 = 11;
/// Up to this many records, insertion sort is faster.
const FEW: usize = 48;

/// The part of the key that varies within a bucket: rows from `first_row`, columns of
/// `column_bits`.
#[derive(Clone, Copy, Debug)]
pub struct KeySpace {
    /// Smallest row.
    pub first_row: u32,
    /// Bits of a column.
    pub column_bits: u32,
    /// Bits of row and column together.
    pub bits: u32,
}

impl KeySpace {
    /// For rows `first_row ..= last_row` and columns below `nodes`.
    pub fn new(first_row: u32, last_row: u32, nodes: u64) -> Self {
        let column_bits = 64 - nodes.saturating_sub(1).leading_zeros();
        let bits = column_bits + (32 - (last_row - first_row).leading_zeros());
        Self { first_row, column_bits, bits }
    }

    fn key<E: Edge>(self, edge: &E) -> u64 {
        (u64::from(edge.source() - self.first_row) << self.column_bits) | u64::from(edge.target())
    }
}

/// Sorts by key; equal keys keep their order. `scratch` has the length of `edges`.
pub fn sort<E: Edge>(edges: &mut [E], scratch: &mut [E], space: KeySpace) {
    sort_bits(edges, scratch, space, space.bits, false);
}

/// Sorts by the low `bits`; the result is in `b` if `into_b`, else in `a`.
fn sort_bits<E: Edge>(a: &mut [E], b: &mut [E], space: KeySpace, bits: u32, into_b: bool) {
    if a.len() <= FEW {
        insertion(a, space);
        if into_b {
            b.copy_from_slice(a);
        }
    } else if size_of_val(a) > IN_CACHE && bits > MSD_BITS {
        let low = bits - MSD_BITS;
        let mut ends = [0usize; 1 << MSD_BITS];
        scatter::<E, { 1 << MSD_BITS }>(a, b, space, low, &mut ends);
        let mut start = 0;
        for end in ends {
            sort_bits(&mut b[start..end], &mut a[start..end], space, low, !into_b);
            start = end;
        }
    } else {
        let passes = bits.div_ceil(LSD_BITS).max(1);
        let (mut from, mut to) = (&mut *a, &mut *b);
        for pass in 0..passes {
            let mut ends = [0usize; 1 << LSD_BITS];
            scatter::<E, { 1 << LSD_BITS }>(from, to, space, pass * LSD_BITS, &mut ends);
            (from, to) = (to, from);
        }
        if (passes % 2 == 1) != into_b {
            to.copy_from_slice(from);
        }
    }
}

/// One counting pass over the digit of `DIGITS` values above `shift`; `ends` receives the end of
/// each digit's part.
fn scatter<E: Edge, const DIGITS: usize>(
    from: &[E],
    to: &mut [E],
    space: KeySpace,
    shift: u32,
    ends: &mut [usize; DIGITS],
) {
    let digit = |edge: &E| (space.key(edge) >> shift) as usize & (DIGITS - 1);
    for edge in from {
        ends[digit(edge)] += 1;
    }
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for edge in from {
        let at = &mut ends[digit(edge)];
        to[*at] = *edge;
        *at += 1;
    }
}

fn insertion<E: Edge>(edges: &mut [E], space: KeySpace) {
    for i in 1..edges.len() {
        let edge = edges[i];
        let key = space.key(&edge);
        let mut at = i;
        while at > 0 && space.key(&edges[at - 1]) > key {
            edges[at] = edges[at - 1];
            at -= 1;
        }
        edges[at] = edge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edges::spool::Weighted;
    use ignn_format::random::Sequence;

    #[test]
    fn agrees_with_the_standard_stable_sort() {
        let mut stream = Sequence::new(3, "sort");
        for (count, rows, nodes) in [
            (0, 1, 1),
            (1, 1, 1),
            (40, 5, 9),
            (3000, 7, 50),
            (100_000, 1000, 5000),
            (300_000, 1, 3),
            (400_000, 60_000, 1 << 20),
        ] {
            let mut edges: Vec<Weighted> = (0..count)
                .map(|i| {
                    Weighted::new(
                        17 + stream.below(rows) as u32,
                        stream.below(nodes) as u32,
                        i as f32,
                    )
                })
                .collect();
            let mut expected = edges.clone();
            expected.sort_by_key(|e| (e.source, e.target));
            let mut scratch = edges.clone();
            sort(&mut edges, &mut scratch, KeySpace::new(17, 17 + rows as u32 - 1, nodes));
            assert!(edges == expected, "{count} edges in {rows} rows");
        }
    }
}
