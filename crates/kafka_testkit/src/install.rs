//! Installs Kafka from its Maven packages: Maven resolves the dependencies of a generated project
//! file. Only jar files are installed, all in one directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::BrokersError;
use crate::process::last_lines;

/// The version of Kafka that is installed.
pub const KAFKA_VERSION: &str = "4.1.2";
/// The SLF4J binding that writes Kafka's log lines to a file; Kafka has no default.
const LOGGING_VERSION: &str = "2.25.3";
/// Marker file, written when every package is installed.
const COMPLETE: &str = "complete";

/// Location of Kafka's packages.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Directory of the jar files.
    pub(crate) libraries: PathBuf,
}

/// Default cache directory of packages: `UPESI_KAFKA_CACHE`, or `upesi/kafka-VERSION` in the user's
/// cache directory.
#[must_use]
pub fn default_cache() -> PathBuf {
    if let Some(directory) = std::env::var_os("UPESI_KAFKA_CACHE") {
        return directory.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = cache.or_else(home).unwrap_or_else(std::env::temp_dir);
    base.join(format!("upesi/kafka-{KAFKA_VERSION}"))
}

/// Checks for Java and installs Kafka's packages if necessary; reports what it installs. If
/// everything is installed, it only starts Java. Several programs may call it concurrently.
///
/// # Errors
/// [`BrokersError::Missing`] without Java or Maven; [`BrokersError::Failed`] when Maven cannot
/// fetch a package; [`BrokersError::File`].
pub fn install(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Installation, BrokersError> {
    check_java()?;
    let libraries = cache.join("lib");
    fs::create_dir_all(&libraries).map_err(BrokersError::file(&libraries))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(BrokersError::file(&lock_path))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| BrokersError::File { path: lock_path, error: error.into() })?;
    let complete = cache.join(COMPLETE);
    if complete.is_file() {
        return Ok(Installation { libraries });
    }
    say(&format!(
        "installing Kafka {KAFKA_VERSION} and its dependencies from the Maven repository into {}",
        libraries.display()
    ));
    fetch(cache, &libraries)?;
    let (count, bytes) = sizes(&libraries)?;
    say(&format!("installed {count} packages, {} MiB", bytes >> 20));
    fs::write(&complete, KAFKA_VERSION).map_err(BrokersError::file(&complete))?;
    Ok(Installation { libraries })
}

fn check_java() -> Result<(), BrokersError> {
    let tried = Command::new("java").arg("-version").stdin(Stdio::null()).output();
    let mend = "install a Java runtime of version 17 or later, such as openjdk-17-jre-headless";
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(BrokersError::Failed {
            what: "`java -version`".into(),
            output: last_lines(&output.stderr),
        }),
        Err(error) => Err(BrokersError::Missing { program: "java", error, mend }),
    }
}

fn fetch(cache: &Path, libraries: &Path) -> Result<(), BrokersError> {
    let project = cache.join("pom.xml");
    fs::write(&project, project_file()).map_err(BrokersError::file(&project))?;
    let output = Command::new("mvn")
        .args(["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"])
        .arg("--file")
        .arg(&project)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", libraries.display()))
        .arg("-DincludeScope=runtime")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| BrokersError::Missing {
            program: "mvn",
            error,
            mend: "install Maven (package maven); it is needed once, to download Kafka",
        })?;
    if output.status.success() {
        return Ok(());
    }
    let what = "fetching Kafka with Maven".to_owned();
    Err(BrokersError::Failed { what, output: last_lines(&output.stdout) })
}

fn project_file() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
         <modelVersion>4.0.0</modelVersion>\n  <groupId>upesi</groupId>\n  \
         <artifactId>brokers</artifactId>\n  <version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{}{}  </dependencies>\n</project>\n",
        dependency("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOGGING_VERSION),
    )
}

fn sizes(libraries: &Path) -> Result<(usize, u64), BrokersError> {
    let (mut count, mut bytes) = (0, 0);
    for entry in fs::read_dir(libraries).map_err(BrokersError::file(libraries))? {
        let length = entry.and_then(|entry| entry.metadata()).map(|found| found.len());
        bytes += length.map_err(BrokersError::file(libraries))?;
        count += 1;
    }
    Ok((count, bytes))
}
