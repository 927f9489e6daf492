//! Tensors of `f32` in the safetensors form: the length of a JSON header in 8 bytes, little endian; the
//! header, `{name: {dtype, shape, data_offsets}}`; the values. Only what a policy needs: `F32`, no holes.
//! (<https://github.com/huggingface/safetensors>; its crate would switch on another feature of
//! `serde_json` for the whole workspace.)

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Largest file read, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
const LENGTH_BYTES: usize = 8;

/// A tensor: its shape, and its values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Length of every axis.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Vec<f32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Tensors by name as the bytes of a file.
#[must_use]
pub fn write(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let mut end = 0;
    let headers: BTreeMap<&String, Header> = tensors
        .iter()
        .map(|(name, tensor)| {
            let start = end;
            end += 4 * tensor.values.len();
            let shape = tensor.shape.clone();
            (name, Header { dtype: "F32".to_owned(), shape, data_offsets: (start, end) })
        })
        .collect();
    // Names and whole numbers always become JSON.
    let mut header = serde_json::to_vec(&headers).unwrap_or_default();
    header.resize(header.len().next_multiple_of(LENGTH_BYTES), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(tensors.values().flat_map(|tensor| &tensor.values).flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Read a file's tensors.
///
/// # Errors
/// What is wrong with it, as text.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it has {} bytes, allowed are {FILE_BYTES_MAX}", bytes.len()));
    }
    let (length, rest) = bytes.split_first_chunk().ok_or("it has no header")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let header = rest.get(..length).ok_or_else(|| format!("its header of {length} bytes is cut"))?;
    let mut headers: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| format!("its header is no JSON: {error}"))?;
    headers.remove("__metadata__");
    let data = &rest[length..];
    headers.into_iter().map(|(name, value)| Ok((name.clone(), tensor(&name, value, data)?))).collect()
}

fn tensor(name: &str, value: serde_json::Value, data: &[u8]) -> Result<Tensor, String> {
    let header: Header = serde_json::from_value(value).map_err(|error| format!("tensor {name}: {error}"))?;
    if header.dtype != "F32" {
        return Err(format!("tensor {name} is {}, allowed is F32", header.dtype));
    }
    let (start, end) = header.data_offsets;
    let count = header.shape.iter().try_fold(1_usize, |product, axis| product.checked_mul(*axis));
    let bytes = data.get(start..end).ok_or_else(|| format!("tensor {name} lies outside the file"))?;
    if count.and_then(|count| count.checked_mul(4)) != Some(bytes.len()) {
        return Err(format!("tensor {name} has {} bytes for shape {:?}", bytes.len(), header.shape));
    }
    let values = bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    Ok(Tensor { shape: header.shape, values: values.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_every_cut_is_refused() {
        let tensor =
            |shape: &[usize], values: &[f32]| Tensor { shape: shape.to_vec(), values: values.to_vec() };
        let tensors = BTreeMap::from([
            ("bias".to_owned(), tensor(&[2], &[1.5, -0.0])),
            ("weights".to_owned(), tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, f32::MIN_POSITIVE])),
        ]);
        let bytes = write(&tensors);
        assert_eq!(read(&bytes), Ok(tensors));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let file =
            |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        for header in [
            r#"{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#,
        ] {
            assert!(read(&file(header)).is_err(), "{header}");
        }
        assert!(read(&u64::MAX.to_le_bytes()).is_err());
    }
}
