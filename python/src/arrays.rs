//! Memory of the library as numpy arrays, without copies: an [`Array`] owns the memory and tells
//! numpy where it is (`__array_interface__`); the numpy array keeps it alive.

use std::any::Any;

use ignn::dense::{Matrix, MatrixRef};
use numpy::ndarray::ArrayView2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

/// Memory that numpy arrays look at.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Array {
    address: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
    kind: &'static str,
    is_read_only: bool,
    /// Keeps the memory.
    _owner: Box<dyn Any + Send + Sync>,
}

/// A type of entries that numpy knows.
pub trait Entry: Copy + Send + Sync + 'static {
    /// Its name in `__array_interface__`, without the order of bytes.
    const KIND: &'static str;
}

macro_rules! entries {
    ($($type:ty = $kind:literal,)+) => {$(
        impl Entry for $type {
            #[cfg(target_endian = "little")]
            const KIND: &'static str = concat!("<", $kind);
            #[cfg(target_endian = "big")]
            const KIND: &'static str = concat!(">", $kind);
        }
    )+};
}

entries! {
    f32 = "f4",
    f64 = "f8",
    i32 = "i4",
    i64 = "i8",
    u32 = "u4",
    u64 = "u8",
    u8 = "u1",
}

impl Array {
    /// A matrix, which the array owns. Rows have the stride of the matrix.
    pub fn matrix(mut matrix: Matrix) -> Self {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let stride = matrix.view().stride() * size_of::<f32>();
        // The memory of a matrix stays where it is when the matrix is moved.
        let address = matrix.view_mut().padded_mut().as_mut_ptr() as usize;
        Self {
            address,
            shape: vec![rows, cols],
            strides: vec![stride, size_of::<f32>()],
            kind: f32::KIND,
            is_read_only: false,
            _owner: Box::new(matrix),
        }
    }

    /// A vector, which the array owns.
    pub fn vector<E: Entry>(mut values: Vec<E>) -> Self {
        let (address, shape) = (values.as_mut_ptr() as usize, vec![values.len()]);
        let (strides, kind) = (vec![size_of::<E>()], E::KIND);
        Self { address, shape, strides, kind, is_read_only: false, _owner: Box::new(values) }
    }

    /// A slice of memory that `owner` keeps, not to be written to.
    pub fn view<E: Entry>(slice: &[E], owner: impl Any + Send + Sync) -> Self {
        let (address, shape) = (slice.as_ptr() as usize, vec![slice.len()]);
        let (strides, kind) = (vec![size_of::<E>()], E::KIND);
        Self { address, shape, strides, kind, is_read_only: true, _owner: Box::new(owner) }
    }

    /// A matrix in memory that `owner` keeps, not to be written to.
    pub fn rows(rows: MatrixRef<'_>, owner: impl Any + Send + Sync) -> Self {
        Self {
            address: rows.padded().as_ptr() as usize,
            shape: vec![rows.rows(), rows.cols()],
            strides: vec![rows.stride() * size_of::<f32>(), size_of::<f32>()],
            kind: f32::KIND,
            is_read_only: true,
            _owner: Box::new(owner),
        }
    }

    /// The numpy array over this memory.
    pub fn into_numpy(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let array = Bound::new(py, self)?;
        Ok(py.import("numpy")?.getattr("asarray")?.call1((array,))?.unbind())
    }
}

#[pymethods]
impl Array {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", self.kind)?;
        dict.set_item("shape", pyo3::types::PyTuple::new(py, &self.shape)?)?;
        dict.set_item("strides", pyo3::types::PyTuple::new(py, &self.strides)?)?;
        dict.set_item("data", (self.address, self.is_read_only))?;
        Ok(dict)
    }
}

/// Rows that are copied at a time.
const ROWS: usize = 1 << 12;

/// A matrix with the entries of a numpy array: padded and aligned, so always a copy. It is made on
/// all threads of the pool that it is called in.
pub fn to_matrix(view: ArrayView2<'_, f32>) -> Matrix {
    let (rows, cols) = view.dim();
    let mut matrix = Matrix::zeros(rows, cols);
    let mut own = matrix.view_mut();
    let stride = own.stride().max(1);
    own.padded_mut().par_chunks_mut(stride * ROWS).enumerate().for_each(|(chunk, own)| {
        for (at, own) in own.chunks_mut(stride).enumerate() {
            let row = view.row(chunk * ROWS + at);
            match row.as_slice() {
                Some(row) => own[..cols].copy_from_slice(row),
                None => own.iter_mut().zip(row).for_each(|(own, value)| *own = *value),
            }
        }
    });
    matrix
}
