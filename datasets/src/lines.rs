//! Lines of a text file, one at a time, with their numbers; and the fields of a line.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use crate::{DatasetError, RejectReason, source};

/// Longest line that is looked at; a longer one is rejected, not held in memory.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads a file line by line: no BOM, no line ends, blank lines skipped.
///
/// Lines are cut before fields are, so an unclosed quote spoils its own line and not the rest of the file.
pub(crate) struct LineReader {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    /// The number of the line last returned, from 1.
    pub(crate) line: u64,
}

impl LineReader {
    pub(crate) fn open(path: &Path) -> Result<Self, DatasetError> {
        Ok(Self { path: path.to_path_buf(), reader: source::open(path)?, buffer: Vec::new(), line: 0 })
    }

    /// The next line that isn't blank, or why it can't be used; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<Result<&str, RejectReason>>, DatasetError> {
        loop {
            self.buffer.clear();
            let limit = MAX_LINE_BYTES as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
            if read.map_err(DatasetError::io(&self.path))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.buffer.len() > MAX_LINE_BYTES {
                if self.buffer.last() != Some(&b'\n') {
                    self.reader.skip_until(b'\n').map_err(DatasetError::io(&self.path))?;
                }
                return Ok(Some(Err(RejectReason::LineTooLong)));
            }
            if self.line == 1 && self.buffer.starts_with(b"\xEF\xBB\xBF") {
                self.buffer.drain(..3);
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        // Only line ends are cut: a trailing tab may be an empty last field.
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Ok(Some(std::str::from_utf8(text).map_err(|_| RejectReason::NotUtf8)))
    }
}

/// Cut a line into trimmed fields; `"` quotes a field and `""` inside is a quote.
///
/// `fields` is reused from line to line. `Err` for an unclosed quote or text after a closing one.
pub(crate) fn split_fields(
    line: &str,
    separator: char,
    fields: &mut Vec<String>,
) -> Result<(), RejectReason> {
    let mut count = 0;
    let mut rest = line;
    loop {
        if fields.len() == count {
            fields.push(String::new());
        }
        fields[count].clear();
        // A tab may be the separator, so it isn't always blank.
        let start = rest.trim_start_matches(|c: char| c != separator && c.is_whitespace());
        let after = if let Some(quoted) = start.strip_prefix('"') {
            take_quoted(quoted, &mut fields[count])?
        } else {
            let end = start.find(separator).unwrap_or(start.len());
            fields[count].push_str(start[..end].trim_end());
            &start[end..]
        };
        count += 1;
        let after = after.trim_start_matches(|c: char| c != separator && c.is_whitespace());
        match after.strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return Err(RejectReason::BrokenLine),
        }
    }
    fields.truncate(count);
    Ok(())
}

/// Take a quoted field whose opening quote is gone; returns what follows the closing one.
fn take_quoted<'a>(text: &'a str, field: &mut String) -> Result<&'a str, RejectReason> {
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or(RejectReason::BrokenLine)?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str, separator: char) -> Result<Vec<String>, RejectReason> {
        let mut fields = vec!["old".to_owned(); 9];
        split_fields(line, separator, &mut fields).map(|()| fields)
    }

    #[test]
    fn fields_are_cut_trimmed_and_unquoted() {
        assert_eq!(fields("a;\t b ;\tc", ';').unwrap(), ["a", "b", "c"]);
        assert_eq!(fields("a\t\tb\t", '\t').unwrap(), ["a", "", "b", ""]);
        assert_eq!(fields(r#""a, ""x""", b ,"""#, ',').unwrap(), [r#"a, "x""#, "b", ""]);
        assert_eq!(fields(r#"a,"b ""c"#, ',').unwrap_err(), RejectReason::BrokenLine);
        assert_eq!(fields(r#""a"b,c"#, ',').unwrap_err(), RejectReason::BrokenLine);
        assert_eq!(fields("", ',').unwrap(), [""]);
    }

    #[test]
    fn lines_keep_their_numbers_through_blank_broken_and_long_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut bytes = b"\xEF\xBB\xBFone\r\n\r\n\xFF\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', MAX_LINE_BYTES * 2));
        bytes.extend(b"\nlast");
        std::fs::write(&path, bytes).unwrap();
        let mut reader = LineReader::open(&path).unwrap();
        let mut seen = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            let line = line.map(str::to_owned);
            seen.push((line, reader.line));
        }
        let expected = [
            (Ok("one".to_owned()), 1),
            (Err(RejectReason::NotUtf8), 3),
            (Err(RejectReason::LineTooLong), 4),
            (Ok("last".to_owned()), 5),
        ];
        assert_eq!(seen, expected);
    }
}
