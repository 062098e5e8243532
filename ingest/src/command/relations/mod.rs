//! `ignn ingest relations`: builds a dataset with several relations among nodes of one type,
//! described by a specification. Relations are read from files, or composed from lists that connect
//! the nodes to entities of other types.
//!
//! All relations share one numbering of the nodes. Lists and edges are read once and spill to disk
//! when they exceed the memory; the intermediate matrices of a path must fit in memory (see
//! [`crate::metapath`]).

mod numbering;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ignn_format::encoding::Encoding;

use crate::builder::{self, DatasetBuilder, DatasetSummary};
use crate::command::node_data::{add_ids, file_name, file_names};
use crate::context::{Context, Unit};
use crate::edges::map::NodeMap;
use crate::edges::options::SelfLoops;
use crate::edges::spool::EdgeSpool;
use crate::error::{IngestError, Result};
use crate::metapath::{Matrix, Product};
use crate::relation::BuiltRelation;
use numbering::{Numbered, NumberedList};
use spec::{Edges, MetaPath, Spec};

/// Options of `ignn ingest relations`.
#[derive(Clone, Debug)]
pub struct IngestRelations {
    /// The specification, a TOML file.
    pub spec: PathBuf,
    /// The directory that paths in the specification are relative to; by default its own.
    pub data: Option<PathBuf>,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// The encoding of an earlier dataset or model, for the node table.
    pub encoding: Option<Encoding>,
}

impl IngestRelations {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        let mut spec = Spec::read(&self.spec, self.data.as_deref())?;
        match (&mut spec.node_data.table, &self.encoding) {
            (Some(table), Some(encoding)) => table.encoding = Some(encoding.clone()),
            (None, Some(_)) => {
                let what = "--encode-as needs a node-table in the specification";
                return Err(IngestError::file(&self.spec, what));
            }
            (_, None) => {}
        }
        spec.node_data.check(context).map_err(|error| error.about(&self.spec))?;
        let mut builder = DatasetBuilder::begin(
            context,
            builder::claim(&self.out, self.force)?,
            "ingest relations",
            options(&spec, context),
        )?;
        let mut numbered = numbering::read(context, &builder, &spec)?;
        builder.add_read_as(std::mem::take(&mut numbered.read_as));
        builder.set_nodes(numbered.nodes()).map_err(|error| error.about(&self.spec))?;
        let mut job = Job { context, spec: &spec, builder: &builder, noted: BTreeSet::new() };
        // Relations from files are built first, so that the memory of their edges is free for the
        // matrices of the paths.
        let mut built: Vec<Option<BuiltRelation>> = Vec::new();
        for at in 0..spec.relations.len() {
            built.push(job.build_files(at, &mut numbered).transpose()?);
        }
        for (at, relation) in spec.relations.iter().enumerate() {
            if let Edges::Path(path) = &relation.edges {
                built[at] = Some(job.build_path(&relation.name, path, &numbered)?);
            }
        }
        for built in built {
            builder.add_built(built.expect("every relation is one or the other"));
        }
        add_ids(&mut builder, &numbered.index, None)?;
        let added = spec.node_data.add(context, &mut builder, &numbered.index);
        added.map_err(|error| error.about(&self.spec))?;
        builder.finish()
    }
}

/// The options that affect the result, for the manifest.
fn options(spec: &Spec, context: &Context) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut set = |key: String, value: String| options.insert(key, value);
    set("spec".into(), file_name(&spec.path));
    set("target".into(), spec.target.clone());
    for relation in &spec.relations {
        let what = match &relation.edges {
            Edges::Files(input, _) => file_names(&input.files),
            Edges::Path(path) => {
                let counted = if path.counted { "counted" } else { "binary" };
                let kept = path.options.self_loops == SelfLoops::Keep;
                let diagonal = if kept { "with its diagonal" } else { "without its diagonal" };
                format!("{} {counted} {diagonal}", path.types.join("-"))
            }
        };
        set(format!("relations.{}", relation.name), what);
    }
    spec.node_data.record(context, &mut options);
    options
}

/// What is needed to build relations.
struct Job<'a> {
    context: &'a Context<'a>,
    spec: &'a Spec,
    builder: &'a DatasetBuilder<'a>,
    /// Lists whose duplicates have been reported.
    noted: BTreeSet<usize>,
}

impl Job<'_> {
    /// Builds a relation that was read from files; `None` for a meta-path.
    fn build_files(&self, at: usize, numbered: &mut Numbered) -> Option<Result<BuiltRelation>> {
        let relation = &self.spec.relations[at];
        let Edges::Files(_, options) = &relation.edges else { return None };
        let (index, read) = (&numbered.index, numbered.relations[at].take()?);
        let describe = |node: u32| index.name(node);
        let mut edges = read.edges;
        let map = read.map.as_map();
        let built = self.builder.build(&relation.name, &mut edges, map, options, &describe, false);
        Some(built.map_err(|error| self.about(&relation.name, error)))
    }

    /// Composes a meta-path and builds its relation.
    fn build_path(
        &mut self,
        name: &str,
        path: &MetaPath,
        numbered: &Numbered,
    ) -> Result<BuiltRelation> {
        self.context.observer.phase(&format!("compose {name}"), None, Unit::Items("rows"));
        let mut edges = self.builder.spool(path.counted);
        self.compose(path, numbered, &mut edges).map_err(|error| self.about(name, error))?;
        let describe = |node: u32| numbered.index.name(node);
        let built = self.builder.build(
            name,
            &mut edges,
            NodeMap::Identity,
            &path.options,
            &describe,
            false,
        );
        built.map_err(|error| self.about(name, error))
    }

    fn compose(
        &mut self,
        path: &MetaPath,
        numbered: &Numbered,
        edges: &mut EdgeSpool,
    ) -> Result<()> {
        let half = path.steps.len().div_ceil(2);
        let left = self.chain(path, 0..half, numbered)?;
        let right = match path.steps.len() - half {
            0 => None,
            // The second half of a symmetric path is the transpose of the first.
            rest if path.symmetric && rest == half => Some(left.transposed()?),
            _ => Some(self.chain(path, half..path.steps.len(), numbered)?),
        };
        let (counted, upper) = (path.counted, path.symmetric);
        let product = Product { left: &left, right: right.as_ref(), counted, upper };
        let diagonal = path.options.self_loops == SelfLoops::Keep;
        let budget = self.builder.budget();
        match edges {
            EdgeSpool::Plain(spool) => product.spool(self.context, budget, diagonal, spool),
            EdgeSpool::Weighted(spool) => product.spool(self.context, budget, diagonal, spool),
        }
    }

    /// The product of some steps of a path.
    fn chain(
        &mut self,
        path: &MetaPath,
        steps: std::ops::Range<usize>,
        numbered: &Numbered,
    ) -> Result<Matrix> {
        let mut product: Option<Matrix> = None;
        for step in &path.steps[steps] {
            let list = numbered.lists[step.list].as_ref().expect("lists of paths are read");
            let next = self.matrix(step.list, list, step.reversed, numbered)?;
            product = Some(match product {
                None => next,
                Some(before) => before.times(&next, path.counted, self.context)?,
            });
        }
        Ok(product.expect("a path has steps"))
    }

    /// The matrix of a list, or its transpose if `reversed`.
    fn matrix(
        &mut self,
        at: usize,
        list: &NumberedList,
        reversed: bool,
        numbered: &Numbered,
    ) -> Result<Matrix> {
        let [source, target] = list.types.map(|kind| numbered.places[kind].as_deref());
        let place = |places: Option<&[u32]>, number: u32| {
            places.map_or(number, |places| places[number as usize])
        };
        let entry = |first, second| {
            let (first, second) = (place(source, first), place(target, second));
            if reversed { (second, first) } else { (first, second) }
        };
        let [first, second] = list.types.map(|kind| numbered.sizes[kind]);
        let (rows, columns) = if reversed { (second, first) } else { (first, second) };
        let symmetric = self.spec.lists[at].symmetric;
        let budget = self.builder.budget();
        let (matrix, merged) =
            Matrix::from_pairs(&list.pairs, rows, columns, symmetric, budget, entry)?;
        if merged > 0 && self.noted.insert(at) {
            let name = &self.spec.lists[at].name;
            self.context
                .observer
                .note(&format!("{merged} pairs of list {name} are duplicates and count once"));
        }
        Ok(matrix)
    }

    /// Adds the relation to an error that names no file.
    fn about(&self, name: &str, error: IngestError) -> IngestError {
        match error {
            IngestError::Usage(_) => self.spec.about(&format!("relations.{name}"), &error),
            other => other,
        }
    }
}
