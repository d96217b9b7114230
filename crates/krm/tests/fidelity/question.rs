//! What both sides are asked, what they answer, and how that is recorded.

use std::fmt;
use std::fs;
use std::path::Path;

use loggia_krm::Files;

use crate::oracle::Oracle;

/// A question about a package, or about some texts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// The files after the package was read and written back.
    Package(Files),
    /// The items with all their annotations.
    Items(Files),
    /// The files after the resources of a stream were written into the folder.
    Write(Files, String),
    /// Whatever a mode makes of some texts.
    Texts(&'static str, Vec<String>),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Text(String),
    Files(Files),
    Error(String),
    /// The original crashed.
    Panic(String),
}

/// Files as text.
struct Shown<'a>(&'a Files);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(path, content)| (path, String::from_utf8_lossy(content))))
            .finish()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(files) | Self::Items(files) => write!(f, "{} {:?}", self.mode(), Shown(files)),
            Self::Write(files, stream) => write!(f, "write {:?} {stream:?}", Shown(files)),
            Self::Texts(mode, texts) => write!(f, "{mode} {texts:?}"),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(files) => write!(f, "{:?}", Shown(files)),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Error(text) | Self::Panic(text) => write!(f, "error {text:?}"),
        }
    }
}

/// What folders are called in answers, wherever they were.
pub(crate) const FOLDER: &str = "/PKG";

impl Question {
    pub(crate) fn ask(&self, oracle: &mut Oracle) -> Answer {
        match self {
            Self::Package(files) => on_disk(files, |folder| oracle.ask("package", &[folder.as_bytes()])),
            Self::Items(files) => {
                let temporary = tempfile::tempdir().expect("there is room");
                let root = temporary.path().canonicalize().expect("is there");
                write_files(&root, files);
                let root = root.to_string_lossy();
                relocate(oracle.ask("items", &[root.as_bytes()]), &root)
            }
            Self::Write(files, stream) => {
                on_disk(files, |folder| oracle.ask("write", &[folder.as_bytes(), stream.as_bytes()]))
            }
            Self::Texts(mode, texts) => {
                let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                oracle.ask(mode, &texts)
            }
        }
    }

    fn mode(&self) -> &'static str {
        match self {
            Self::Package(_) => "package",
            Self::Items(_) => "items",
            Self::Write(..) => "write",
            Self::Texts(mode, _) => mode,
        }
    }
}

/// Does something to files on disk; the answer is what became of them, or the error.
pub(crate) fn on_disk(files: &Files, work: impl FnOnce(&str) -> Answer) -> Answer {
    let temporary = tempfile::tempdir().expect("there is room");
    let root = temporary.path().canonicalize().expect("is there");
    write_files(&root, files);
    let folder = root.to_string_lossy();
    match relocate(work(&folder), &folder) {
        Answer::Text(_) => Answer::Files(read_files(&root)),
        other => other,
    }
}

fn relocate(answer: Answer, folder: &str) -> Answer {
    match answer {
        Answer::Error(text) => Answer::Error(text.replace(folder, FOLDER)),
        other => other,
    }
}

fn write_files(root: &Path, files: &Files) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("is below the root")).expect("there is room");
        fs::write(path, content).expect("there is room");
    }
}

pub(crate) fn read_files(root: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("is a folder") {
            let path = entry.expect("can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("is below the root").to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).expect("can be read"));
            }
        }
    }
    files
}

// === recording ===
//
// `MODE LENGTH…\n` and the texts, then `VERDICT LENGTH…\n` and the texts. Files are path and content in turn.

fn flatten(files: &Files) -> Vec<Vec<u8>> {
    files.iter().flat_map(|(path, content)| [path.clone().into_bytes(), content.clone()]).collect()
}

fn unflatten(texts: &[Vec<u8>]) -> Files {
    texts.chunks(2).map(|pair| (string(&pair[0]), pair[1].clone())).collect()
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("recorded as text")
}

pub(crate) fn write(question: &Question, answer: &Answer, out: &mut Vec<u8>) {
    let texts = match question {
        Question::Package(files) | Question::Items(files) => flatten(files),
        Question::Write(files, stream) => {
            let mut texts = vec![stream.clone().into_bytes()];
            texts.extend(flatten(files));
            texts
        }
        Question::Texts(_, texts) => texts.iter().map(|text| text.clone().into_bytes()).collect(),
    };
    write_frame(question.mode(), &texts, out);
    match answer {
        Answer::Text(text) => write_frame("text", &[text.clone().into_bytes()], out),
        Answer::Files(files) => write_frame("files", &flatten(files), out),
        Answer::Error(text) => write_frame("error", &[text.clone().into_bytes()], out),
        Answer::Panic(_) => unreachable!("crashes are not recorded"),
    }
}

fn write_frame(word: &str, texts: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend(word.bytes());
    texts.iter().for_each(|text| out.extend(format!(" {}", text.len()).bytes()));
    out.push(b'\n');
    for text in texts {
        out.extend(text);
        out.push(b'\n');
    }
}

pub(crate) fn read_all(mut bytes: &[u8]) -> Vec<(Question, Answer)> {
    let mut cases = Vec::new();
    while !bytes.is_empty() {
        let (mode, texts) = read_frame(&mut bytes);
        let question = match mode.as_str() {
            "package" => Question::Package(unflatten(&texts)),
            "items" => Question::Items(unflatten(&texts)),
            "write" => Question::Write(unflatten(&texts[1..]), string(&texts[0])),
            mode => {
                let modes = ["stream", "kptfile", "results", "ignore", "glob", "image"];
                let mode = modes.into_iter().find(|known| *known == mode).expect("a mode we know");
                Question::Texts(mode, texts.iter().map(|text| string(text)).collect())
            }
        };
        let (verdict, texts) = read_frame(&mut bytes);
        let answer = match verdict.as_str() {
            "text" => Answer::Text(string(&texts[0])),
            "files" => Answer::Files(unflatten(&texts)),
            _ => Answer::Error(string(&texts[0])),
        };
        cases.push((question, answer));
    }
    cases
}

fn read_frame(bytes: &mut &[u8]) -> (String, Vec<Vec<u8>>) {
    let end = bytes.iter().position(|&byte| byte == b'\n').expect("a frame has a header");
    let header = string(&bytes[..end]);
    *bytes = &bytes[end + 1..];
    let mut words = header.split(' ');
    let word = words.next().expect("a header has a word").to_owned();
    let texts = words
        .map(|length| {
            let length: usize = length.parse().expect("a length is a number");
            let text = bytes[..length].to_vec();
            *bytes = &bytes[length + 1..];
            text
        })
        .collect();
    (word, texts)
}
