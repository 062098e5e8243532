//! Maps from the numbers in a spool to node numbers: the identity, the rank in a set of ids, a
//! table, or both.

/// A set of 32-bit ids with the rank of each: its position among the members.
#[derive(Debug, Default)]
pub struct BitRank {
    words: Vec<u64>,
    ranks: Vec<u32>,
    members: u64,
}

impl BitRank {
    /// From the words of a bitmap; at most 2^32 - 1 members.
    pub fn new(words: Vec<u64>) -> Self {
        let mut members = 0u64;
        let ranks = words.iter().map(|word| {
            let rank = members as u32;
            members += u64::from(word.count_ones());
            rank
        });
        let ranks = ranks.collect();
        Self { words, ranks, members }
    }

    /// Number of members.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Members smaller than `id`.
    pub fn rank(&self, id: u32) -> u32 {
        let word = (id / 64) as usize;
        self.ranks[word] + (self.words[word] & ((1 << (id % 64)) - 1)).count_ones()
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: u64) -> bool {
        self.words.get((id / 64) as usize).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
                .take_while(|&rest| rest != 0)
                .map(move |rest| at as u32 * 64 + rest.trailing_zeros())
        })
    }
}

/// A map from the numbers in a spool to node numbers.
#[derive(Clone, Copy, Debug)]
pub enum NodeMap<'a> {
    /// They are node numbers.
    Identity,
    /// Through a table.
    Table(&'a [u32]),
    /// By rank in a set.
    Rank(&'a BitRank),
    /// By rank, then through a table.
    RankTable(&'a BitRank, &'a [u32]),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_the_members_below() {
        let ids = [0u32, 5, 63, 64, 65, 700, 701];
        let mut words = vec![0u64; 12];
        for id in ids {
            words[(id / 64) as usize] |= 1 << (id % 64);
        }
        let set = BitRank::new(words);
        assert_eq!(set.members(), 7);
        assert_eq!(set.iter().collect::<Vec<_>>(), ids);
        for (rank, id) in ids.into_iter().enumerate() {
            assert_eq!(set.rank(id), rank as u32);
            assert!(set.contains(u64::from(id)));
        }
        assert!(!set.contains(1) && !set.contains(1 << 40));
    }
}
