//! The bytes of a raw file: as they are, or unpacked while reading where they are gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::DatasetError;

const BUFFER_BYTES: usize = 1 << 18;
const GZIP: &[u8] = b"\x1F\x8B";

/// Open a raw file, unpacking gzip (told by its first bytes, not by its name). Nothing is unpacked ahead of what
/// is read, so a file that unpacks to more than the memory is fine.
///
/// # Errors
/// The file can't be opened, or is a pipe, a socket or a device, which can't be read twice.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, DatasetError> {
    let file = open_regular(path)?;
    let mut packed = BufReader::with_capacity(BUFFER_BYTES, file);
    if !packed.fill_buf().map_err(DatasetError::io(path))?.starts_with(GZIP) {
        return Ok(Box::new(packed));
    }
    let unpacked = Unpacked { decoder: MultiGzDecoder::new(packed), bytes: 0 };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
}

/// Open a file that is one: opening a pipe would wait for somebody to write.
pub(crate) fn open_regular(path: &Path) -> Result<File, DatasetError> {
    let kind = std::fs::metadata(path).map_err(DatasetError::io(path))?;
    if !kind.is_file() {
        let found = "a pipe, socket or device, which can't be read twice; save it as a file".to_owned();
        return Err(DatasetError::UnknownFormat { path: path.to_path_buf(), found });
    }
    File::open(path).map_err(DatasetError::io(path))
}

/// Whether a file is gzip by its first bytes.
pub(crate) fn is_packed(path: &Path) -> Result<bool, DatasetError> {
    let mut head = Vec::new();
    let file = open_regular(path)?;
    file.take(GZIP.len() as u64).read_to_end(&mut head).map_err(DatasetError::io(path))?;
    Ok(head == GZIP)
}

/// The path without `.gz`: what names and extensions are told by.
pub(crate) fn unpacked_name(path: &Path) -> PathBuf {
    let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    if is_packed { path.with_extension("") } else { path.to_path_buf() }
}

/// Unpacks gzip (several members follow one another where logs were appended), and says where it broke.
struct Unpacked {
    decoder: MultiGzDecoder<BufReader<File>>,
    bytes: u64,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.decoder.read(buffer) {
            Ok(read) => {
                self.bytes += read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let packed_at = self.decoder.get_mut().stream_position().unwrap_or_default();
                let text = format!(
                    "gzip is cut short or damaged at byte {packed_at} of the file, after {} unpacked bytes \
                     ({error}); get the file whole again",
                    self.bytes
                );
                Err(io::Error::new(error.kind(), text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use crate::{FormatName, QualityReport, ReadOptions, load_series};

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn rows(count: u64) -> String {
        let row = |row: u64| format!("{},a,{}\n", 1_628_640_000_000 + row * 60_000, row * 7919 % 101);
        "at_ms,box_id,cpu_cores\n".to_owned() + &(0..count).map(row).collect::<String>()
    }

    fn read(name: &str, bytes: &[u8]) -> Result<(usize, QualityReport), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (series, report) =
            load_series(&[path], &ReadOptions::default()).map_err(|error| error.to_string())?;
        Ok((series.iter().map(|one| one.points.len()).sum(), report))
    }

    #[test]
    fn packed_files_read_as_unpacked_ones() {
        let text = rows(5_000);
        let (points, report) = read("use.csv.gz", &packed(&text)).unwrap();
        assert_eq!((points, report.rejected_total()), (5_000, 0));
        // Told by its bytes, whatever the name; and members that were appended are all read.
        let (first, second) = text.split_at(text.len() / 2);
        let both = [packed(first), packed(second)].concat();
        assert_eq!(read("use.csv", &both).unwrap().0, 5_000);
        let line = r#"{"at_ms":1628640000000,"box_id":"a","cpu_cores":1}"#;
        assert_eq!(read("use.ndjson.gz", &packed(line)).unwrap().0, 1);
        let log = "1.2.3.4 - - [10/Oct/2024:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n".repeat(3);
        let (points, report) = read("access.log.2.gz", &packed(&log)).unwrap();
        assert_eq!((points, report.files[0].format.as_str()), (1, FormatName::AccessLog.as_str()));
    }

    #[test]
    fn a_cut_file_is_an_error_with_its_place() {
        let whole = packed(&rows(50_000));
        for bytes in [3, 12, whole.len() / 2, whole.len() - 1] {
            let message = read("use.csv.gz", &whole[..bytes]).unwrap_err();
            assert!(message.contains("cut short or damaged at byte"), "{bytes}: {message}");
        }
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0xFF;
        assert!(read("use.csv.gz", &damaged).is_err());
        let trailing = [whole, b"rubbish behind the end".to_vec()].concat();
        assert!(read("use.csv.gz", &trailing).unwrap_err().contains("damaged"));
    }

    #[test]
    fn a_line_that_unpacks_to_too_much_is_counted_and_not_held() {
        let text = format!("{}{}\n1628650000000,a,1\n", rows(1), "x".repeat(50_000_000));
        let (points, report) = read("use.csv.gz", &packed(&text)).unwrap();
        assert_eq!((points, report.rejected_total()), (2, 1));
        assert_eq!(report.rejects[0].reason, crate::RejectReason::LineTooLong);
    }
}
