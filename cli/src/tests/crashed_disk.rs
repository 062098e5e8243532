//! A model of what a disk holds after a loss of power: the operations of a command are recorded, and
//! any part of them that was not synced may be missing.
//!
//! - A write may be lost, or only its beginning may be there, unless its file was synced after it.
//! - An operation on names may be lost unless a directory that it changes was synced after it. Those
//!   of one directory persist in order. One that changes two directories is in both or in neither.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::storage::Operation;

use super::place::Tree;

/// A file or a directory, whatever its name.
type Node = usize;

/// Numbers from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A change of a file's content.
#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Resize(u64),
}

/// One step as the disk sees it.
enum Step {
    Content {
        node: Node,
        change: Change,
    },
    /// Each name in a directory gets a node, or none; all at once.
    Names(Vec<(Node, PathBuf, Option<Node>)>),
    SyncFile(Node),
    SyncDirectory(Node),
}

#[derive(Clone, Default)]
struct Disk {
    directories: BTreeMap<Node, BTreeMap<PathBuf, Node>>,
    files: BTreeMap<Node, Vec<u8>>,
}

const ROOT: Node = 0;

/// What a command did to a disk.
pub struct Recording {
    first: Disk,
    steps: Vec<Step>,
}

impl Disk {
    fn find(&self, path: &Path) -> Node {
        path.iter().fold(ROOT, |at, name| self.directories[&at][Path::new(name)])
    }

    /// The directory of a path, and its name there.
    fn place(&self, path: &Path) -> (Node, PathBuf) {
        (self.find(path.parent().unwrap()), path.file_name().unwrap().into())
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Content { node, change } => change.apply(self.files.get_mut(node).unwrap()),
            Step::Names(names) => {
                for (directory, name, node) in names {
                    let entries = self.directories.get_mut(directory).unwrap();
                    match node {
                        Some(node) => drop(entries.insert(name.clone(), *node)),
                        None => drop(entries.remove(name)),
                    }
                }
            }
            Step::SyncFile(_) | Step::SyncDirectory(_) => {}
        }
    }

    fn tree(&self) -> Tree {
        fn visit(disk: &Disk, at: Node, path: &Path, tree: &mut Tree) {
            for (name, node) in &disk.directories[&at] {
                let path = path.join(name);
                tree.insert(path.clone(), disk.files.get(node).cloned());
                if disk.directories.contains_key(node) {
                    visit(disk, *node, &path, tree);
                }
            }
        }
        let mut tree = Tree::new();
        visit(self, ROOT, Path::new(""), &mut tree);
        tree
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(bytes);
            }
            Self::Resize(length) => content.resize(*length as usize, 0),
        }
    }
}

impl Recording {
    /// From what was there before, and the operations, with paths below `root`.
    pub fn new(before: &Tree, root: &Path, operations: &[Operation]) -> Self {
        let mut disk = Disk::default();
        disk.directories.insert(ROOT, BTreeMap::new());
        let mut next = ROOT + 1;
        for (path, content) in before {
            let (directory, name) = disk.place(path);
            disk.directories.get_mut(&directory).unwrap().insert(name, next);
            match content {
                Some(bytes) => drop(disk.files.insert(next, bytes.clone())),
                None => drop(disk.directories.insert(next, BTreeMap::new())),
            }
            next += 1;
        }
        let mut recording = Self { first: disk.clone(), steps: Vec::new() };
        for operation in operations {
            // New files and directories are on the disk from the first, without a name.
            for all in [&mut recording.first, &mut disk] {
                match operation {
                    Operation::Create { .. } => drop(all.files.insert(next, Vec::new())),
                    Operation::MakeDirectory { .. } => {
                        drop(all.directories.insert(next, BTreeMap::new()));
                    }
                    _ => {}
                }
            }
            for step in steps_of(operation, root, &disk, next) {
                disk.apply(&step);
                recording.steps.push(step);
            }
            next += 1;
        }
        recording
    }

    /// Number of moments at which the power can fail, without that before the first step.
    pub fn moments(&self) -> usize {
        self.steps.len()
    }

    /// All steps before a moment have reached the disk.
    pub fn complete(&self, moment: usize) -> Tree {
        let mut disk = self.first.clone();
        self.steps[..moment].iter().for_each(|step| disk.apply(step));
        disk.tree()
    }

    /// Of the steps before a moment, those that were synced have reached the disk, and of the others
    /// only what `random` says; with `least`, none.
    pub fn crashed(&self, moment: usize, random: &mut Random, least: bool) -> Tree {
        let steps = &self.steps[..moment];
        let kept = self.kept_names(steps, random, least);
        let mut disk = self.first.clone();
        // Some crashes lose nearly all contents, others nearly none.
        let share = 1 + random.below(7);
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Names(_) if kept[at] => disk.apply(step),
                Step::Content { node, change } => {
                    let is_sync =
                        |step: &Step| matches!(step, Step::SyncFile(file) if file == node);
                    if steps[at..].iter().any(is_sync) || !least && random.below(8) < share {
                        disk.apply(step);
                    } else if let (Change::Write(offset, bytes), false) = (change, least)
                        && random.below(2) == 0
                    {
                        let torn = bytes[..random.below(bytes.len() + 1)].to_vec();
                        let change = Change::Write(*offset, torn);
                        disk.apply(&Step::Content { node: *node, change });
                    }
                }
                _ => {}
            }
        }
        disk.tree()
    }

    /// Which operations on names persist.
    fn kept_names(&self, steps: &[Step], random: &mut Random, least: bool) -> Vec<bool> {
        // The operations of each directory, in order.
        let mut logs: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            if let Step::Names(names) = step {
                for (directory, ..) in names {
                    let log = logs.entry(*directory).or_default();
                    if log.last() != Some(&at) {
                        log.push(at);
                    }
                }
            }
        }
        // How many operations of each directory persist: at least those before its last sync.
        let mut cuts: BTreeMap<Node, usize> = BTreeMap::new();
        for (directory, log) in &logs {
            let is_sync =
                |step: &Step| matches!(step, Step::SyncDirectory(node) if node == directory);
            let last = steps.iter().rposition(is_sync).unwrap_or(0);
            cuts.insert(*directory, log.iter().filter(|at| **at < last).count());
        }
        let is_kept = |cuts: &BTreeMap<Node, usize>, at: usize, directory: &Node| {
            logs[directory].iter().position(|other| *other == at).unwrap() < cuts[directory]
        };
        let both = |at: usize| match &steps[at] {
            Step::Names(names) => names.iter().map(|(directory, ..)| *directory).collect(),
            _ => Vec::new(),
        };
        // One that persists in one directory does so in the other, with all before it there.
        let raise = |cuts: &mut BTreeMap<Node, usize>| loop {
            let before = cuts.clone();
            for at in 0..steps.len() {
                let directories = both(at);
                if directories.iter().any(|directory| is_kept(cuts, at, directory)) {
                    for directory in directories {
                        let needed =
                            logs[&directory].iter().position(|other| *other == at).unwrap() + 1;
                        let cut = cuts.get_mut(&directory).unwrap();
                        *cut = needed.max(*cut);
                    }
                }
            }
            if *cuts == before {
                return;
            }
        };
        raise(&mut cuts);
        if !least {
            for (directory, log) in &logs {
                let cut = cuts.get_mut(directory).unwrap();
                *cut += random.below(log.len() - *cut + 1);
            }
            // What is not synced and in one of them only is in neither, with all after it.
            loop {
                let before = cuts.clone();
                for at in 0..steps.len() {
                    let directories = both(at);
                    if directories.iter().any(|directory| !is_kept(&cuts, at, directory)) {
                        for directory in directories {
                            let place = logs[&directory].iter().position(|other| *other == at);
                            let cut = cuts.get_mut(&directory).unwrap();
                            *cut = place.unwrap().min(*cut);
                        }
                    }
                }
                if cuts == before {
                    break;
                }
            }
        }
        let kept = |at| both(at).iter().all(|directory| is_kept(&cuts, at, directory));
        (0..steps.len()).map(kept).collect()
    }
}

/// What an operation does to a disk; `new` is the node of what it creates.
fn steps_of(operation: &Operation, root: &Path, disk: &Disk, new: Node) -> Vec<Step> {
    let inside = |path: &Path| path.strip_prefix(root).unwrap().to_path_buf();
    let place = |path: &Path| disk.place(&inside(path));
    let find = |path: &Path| disk.find(&inside(path));
    match operation {
        Operation::MakeDirectory { path } | Operation::Create { path } => {
            let (directory, name) = place(path);
            if disk.directories[&directory].contains_key(&name) {
                // It was announced, and failed.
                return Vec::new();
            }
            vec![Step::Names(vec![(directory, name, Some(new))])]
        }
        Operation::Write { path, offset, bytes } => {
            let change = Change::Write(*offset, bytes.clone());
            vec![Step::Content { node: find(path), change }]
        }
        Operation::Resize { path, length } => {
            vec![Step::Content { node: find(path), change: Change::Resize(*length) }]
        }
        Operation::SyncFile { path } => vec![Step::SyncFile(find(path))],
        Operation::SyncDirectory { path } => vec![Step::SyncDirectory(find(path))],
        Operation::Rename { from, to } => {
            let (node, (directory, name), (into, to)) = (find(from), place(from), place(to));
            vec![Step::Names(vec![(directory, name, None), (into, to, Some(node))])]
        }
        Operation::Exchange { first, second } => {
            let ((directory, name), (other, its)) = (place(first), place(second));
            let (node, its_node) = (find(first), find(second));
            let names = vec![(directory, name, Some(its_node)), (other, its, Some(node))];
            vec![Step::Names(names)]
        }
        Operation::RemoveFile { path } | Operation::RemoveDirectory { path } => {
            let (directory, name) = place(path);
            vec![Step::Names(vec![(directory, name, None)])]
        }
        Operation::RemoveTree { path } => {
            let mut steps = Vec::new();
            let (directory, name) = place(path);
            remove(disk, find(path), &mut steps);
            steps.push(Step::Names(vec![(directory, name, None)]));
            steps
        }
    }
}

/// Removes what is in a directory, name by name.
fn remove(disk: &Disk, directory: Node, steps: &mut Vec<Step>) {
    for (name, node) in disk.directories.get(&directory).into_iter().flatten() {
        remove(disk, *node, steps);
        steps.push(Step::Names(vec![(directory, name.clone(), None)]));
    }
}
