//! Writes NumPy array files. Reading them is [`crate::source::npy`].

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{IngestError, Result};
use crate::source::npy::MAGIC;
use crate::synthetic::raw::create;

/// The data starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// A type of array elements.
pub(super) trait Element: Copy {
    /// Its name in NumPy.
    const DTYPE: &'static str;

    fn write(self, out: &mut impl Write) -> io::Result<()>;
}

macro_rules! element {
    ($($type:ty: $dtype:literal),*) => {$(
        impl Element for $type {
            const DTYPE: &'static str = $dtype;

            fn write(self, out: &mut impl Write) -> io::Result<()> {
                out.write_all(&self.to_le_bytes())
            }
        }
    )*};
}

element!(f32: "<f4", f64: "<f8", i64: "<i8");

/// Writes an array of one or two dimensions; the number of values is the product of the shape.
pub(super) fn write<T: Element>(
    path: &Path,
    shape: &[u64],
    values: impl IntoIterator<Item = T>,
) -> Result<()> {
    let write = |mut out: BufWriter<_>| -> io::Result<()> {
        out.write_all(&header(T::DTYPE, shape))?;
        let mut left = shape.iter().product::<u64>();
        for value in values {
            value.write(&mut out)?;
            left -= 1;
        }
        assert_eq!(left, 0, "as many values as the shape has");
        out.flush()
    };
    write(create(path)?).map_err(IngestError::io("write", path))
}

/// Magic, version 1.0, length, and a dictionary padded with spaces to the alignment.
fn header(dtype: &str, shape: &[u64]) -> Vec<u8> {
    let shape: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(ALIGNMENT) - start - 1;
    text.extend(std::iter::repeat_n(' ', padded - text.len()));
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [MAGIC, &[1, 0], &length, text.as_bytes()].concat()
}
