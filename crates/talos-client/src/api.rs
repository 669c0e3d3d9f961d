//! What both faces of a machine share: the services, the limits of time, and how failures are explained.
//!
//! Some calls of Talos wait for as long as they are let (all of etcd's, before it runs). So each call has its usual limit,
//! which [`Api::within`] replaces, and one that ran out of time fails like any other, with words.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient::Clock;
use futures::future::BoxFuture;
use talos::wire::MAX_MESSAGE_SIZE;
use talos::wire::cosi::state_client::StateClient;
use talos::wire::machine::image_service_client::ImageServiceClient;
use talos::wire::machine::lifecycle_service_client::LifecycleServiceClient;
use talos::wire::machine::machine_service_client::MachineServiceClient;
use talos::wire::{common, machine};
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::connection::Faults;
use crate::error::{Error, Kind, Result};
use crate::types::Stage;

pub(crate) const QUESTION: Duration = Duration::from_secs(30);
/// For something that a machine does before it answers.
pub(crate) const WORK: Duration = Duration::from_secs(120);
/// For something that may wait for others: for etcd to heal, for an image to come.
pub(crate) const LONG: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Clone)]
pub(crate) struct Api {
    address: IpAddr,
    channel: Channel,
    faults: Faults,
    clock: Clock,
    limit: Option<Duration>,
    /// The stage in which the machine was seen last.
    stage: Arc<Mutex<Option<Stage>>>,
}

impl Api {
    pub(crate) fn new(address: IpAddr, clock: &Clock, (channel, faults): (Channel, Faults)) -> Self {
        Self { address, channel, faults, clock: clock.clone(), limit: None, stage: Arc::default() }
    }

    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self.clone() }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn services(&self) -> MachineServiceClient<Channel> {
        MachineServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_SIZE)
            .max_encoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn lifecycle(&self) -> LifecycleServiceClient<Channel> {
        LifecycleServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn resources(&self) -> StateClient<Channel> {
        StateClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn saw(&self, stage: &Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage.clone());
    }

    fn seen(&self) -> Option<Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn error(&self, attempt: &'static str, status: &Status) -> Error {
        Error::of_status(self.address, attempt, status, self.faults.last().as_ref()).seen_in(self.seen())
    }

    pub(crate) fn apply_error(&self, attempt: &'static str, status: &Status) -> Error {
        Error::of_apply(self.address, attempt, status, self.faults.last().as_ref()).seen_in(self.seen())
    }

    pub(crate) fn failure(&self, attempt: &'static str, kind: Kind, reason: impl Into<String>) -> Error {
        Error::new(self.address, attempt, kind, reason).seen_in(self.seen())
    }

    /// Waits for `work`, but no longer than allowed: the usual limit, unless the caller set one.
    ///
    /// The work is boxed, here and in [`Api::ask`]: a call through all layers is kilobytes, and those add up in callers that
    /// make many.
    pub(crate) fn limited<'a, T: 'a>(
        &'a self,
        attempt: &'static str,
        usual: Duration,
        work: impl Future<Output = std::result::Result<T, Status>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.limited_by(attempt, usual, work, Self::error)
    }

    pub(crate) fn limited_by<'a, T: 'a>(
        &'a self,
        attempt: &'static str,
        usual: Duration,
        work: impl Future<Output = std::result::Result<T, Status>> + Send + 'a,
        explain: fn(&Self, &'static str, &Status) -> Error,
    ) -> BoxFuture<'a, Result<T>> {
        let limit = self.limit.unwrap_or(usual);
        Box::pin(async move {
            match self.clock.timeout(limit, work).await {
                Ok(outcome) => outcome.map_err(|status| explain(self, attempt, &status)),
                Err(_) => Err(Error::late(self.address, attempt, limit).seen_in(self.seen())),
            }
        })
    }

    /// The one message of an answer. A failure may hide in its metadata.
    pub(crate) fn ask<'a, A: Answer + 'a>(
        &'a self,
        attempt: &'static str,
        usual: Duration,
        call: impl Future<Output = std::result::Result<Response<A>, Status>> + Send + 'a,
    ) -> BoxFuture<'a, Result<A::Message>> {
        Box::pin(async move {
            let answer = self.limited(attempt, usual, call).await?.into_inner();
            self.one(attempt, answer)
        })
    }

    pub(crate) fn one<A: Answer>(&self, attempt: &'static str, answer: A) -> Result<A::Message> {
        let message =
            answer.first().ok_or_else(|| self.failure(attempt, Kind::Protocol, "the answer is empty"))?;
        match A::metadata(&message) {
            Some(metadata) if !metadata.error.is_empty() => {
                let status = metadata.status.as_ref();
                let code = status.map_or(tonic::Code::Unknown, |s| tonic::Code::from_i32(s.code));
                Err(self.error(attempt, &Status::new(code, metadata.error.clone())))
            }
            _ => Ok(message),
        }
    }

    /// A stream of bytes to its end, or to where `take` wants no more.
    pub(crate) async fn bytes(
        &self,
        attempt: &'static str,
        mut stream: Streaming<common::Data>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        while let Some(data) = self.limited(attempt, WORK, stream.message()).await? {
            if !take(&data.bytes) {
                break;
            }
        }
        Ok(())
    }
}

/// An answer that wraps one message for each machine it speaks for.
pub(crate) trait Answer {
    type Message;
    fn first(self) -> Option<Self::Message>;
    fn metadata(message: &Self::Message) -> Option<&common::Metadata>;
}

macro_rules! answers {
    ($($answer:ident of $message:ident),* $(,)?) => {
        $(impl Answer for machine::$answer {
            type Message = machine::$message;

            fn first(self) -> Option<Self::Message> {
                self.messages.into_iter().next()
            }

            fn metadata(message: &Self::Message) -> Option<&common::Metadata> {
                message.metadata.as_ref()
            }
        })*
    };
}

answers! {
    ApplyConfigurationResponse of ApplyConfiguration,
    BootstrapResponse of Bootstrap,
    EtcdAlarmDisarmResponse of EtcdAlarmDisarm,
    EtcdAlarmListResponse of EtcdAlarm,
    EtcdDefragmentResponse of EtcdDefragment,
    EtcdForfeitLeadershipResponse of EtcdForfeitLeadership,
    EtcdLeaveClusterResponse of EtcdLeaveCluster,
    EtcdMemberListResponse of EtcdMembers,
    EtcdRecoverResponse of EtcdRecover,
    EtcdRemoveMemberByIdResponse of EtcdRemoveMemberById,
    EtcdStatusResponse of EtcdStatus,
    ImagePullResponse of ImagePull,
    RebootResponse of Reboot,
    ResetResponse of Reset,
    RollbackResponse of Rollback,
    ServiceListResponse of ServiceList,
    ServiceRestartResponse of ServiceRestart,
    ServiceStartResponse of ServiceStart,
    ServiceStopResponse of ServiceStop,
    ShutdownResponse of Shutdown,
    UpgradeResponse of Upgrade,
    VersionResponse of Version,
}
