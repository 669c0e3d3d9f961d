//! How a call ended, in a few words.

use http::Response;

use crate::https::Cut;

/// Something that a call ends with.
pub(crate) trait Outcome {
    /// What it was.
    fn words(&self) -> String;
}

impl<B> Outcome for Response<B> {
    fn words(&self) -> String {
        // Talos answers everything with 200 and says in a header of its own what went wrong.
        let failed = self.headers().get("grpc-message").and_then(|message| message.to_str().ok());
        failed.map_or_else(|| self.status().to_string(), str::to_owned)
    }
}

impl<B> Outcome for Result<Response<B>, Cut> {
    fn words(&self) -> String {
        match self {
            Ok(response) => response.words(),
            Err(cut) => cut.to_string(),
        }
    }
}
