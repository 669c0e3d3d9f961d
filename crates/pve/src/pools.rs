//! Pools, mappings of PCI devices, and what an administrator sets up for a token: role, user, rights.

use http::Method;
use serde::Deserialize;

use crate::client::{Call, Client, encode};
use crate::error::{Error, Kind, Result};
use crate::token::Token;

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// Its name.
    #[serde(rename = "poolid")]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub comment: String,
}

/// A PCI device under one name on every node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Mapping {
    /// The name.
    pub id: String,
    /// `node=…,path=…,id=…`, one for each device.
    #[serde(default)]
    pub map: Vec<String>,
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The user, `name@realm`.
    pub user: String,
    /// The token's name.
    pub name: String,
    /// Whether it has rights of its own instead of the user's.
    pub separated: bool,
}

#[derive(Deserialize)]
struct MadeToken {
    #[serde(rename = "full-tokenid")]
    id: String,
    value: String,
}

impl Client {
    /// All pools that the caller may see.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn pools(&self) -> Result<Vec<Pool>> {
        self.call(Call::get("listing the pools", "/pools")).await
    }

    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`] when there is one of that name.
    pub async fn create_pool(&self, name: &str, comment: &str) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making pool {name}"), "/pools");
        self.call(call.with("poolid", name).with("comment", comment)).await
    }

    /// Removes a pool.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when there is none of that name.
    pub async fn delete_pool(&self, name: &str) -> Result<()> {
        let call = Call::change_all(Method::DELETE, format!("removing pool {name}"), "/pools");
        self.call(call.with("poolid", name)).await
    }

    /// Puts a machine into a pool, out of another one if it is in one.
    ///
    /// # Errors
    ///
    /// As any call; needs `Pool.Allocate` on the pool.
    pub async fn put_into_pool(&self, pool: &str, vmid: u32) -> Result<()> {
        let call = Call::change_all(Method::PUT, format!("putting VM {vmid} into pool {pool}"), "/pools");
        self.call(call.with("poolid", pool).with("vms", vmid).with("allow-move", 1)).await
    }

    /// All mappings of PCI devices that the caller may see.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn pci_mappings(&self) -> Result<Vec<Mapping>> {
        self.call(Call::get("listing the PCI mappings", "/cluster/mapping/pci")).await
    }

    /// Makes a mapping for one device of one node.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`] when there is one of that name.
    pub async fn create_pci_mapping(&self, id: &str, device: &str) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making PCI mapping {id}"), "/cluster/mapping/pci");
        self.call(call.with("id", id).with("map", device)).await
    }

    /// Makes a role with these privileges.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`] when there is one of that name; [`Kind::Parameter`] for a privilege that this version does not have.
    pub async fn create_role(&self, name: &str, privileges: &[&str]) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making role {name}"), "/access/roles");
        self.call(call.with("roleid", name).with("privs", privileges.join(","))).await
    }

    /// Makes a user without a password.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`] when there is one of that name.
    pub async fn create_user(&self, user: &str, comment: &str) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making user {user}"), "/access/users");
        self.call(call.with("userid", user).with("comment", comment)).await
    }

    /// Gives a user a role at a path and below.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn grant(&self, path: &str, user: &str, role: &str) -> Result<()> {
        let attempt = format!("giving {user} the role {role} at {path}");
        let call = Call::change_all(Method::PUT, attempt, "/access/acl");
        self.call(call.with("path", path).with("users", user).with("roles", role)).await
    }

    /// Makes a token. Its secret is told this once.
    ///
    /// # Errors
    ///
    /// [`Kind::Parameter`] when the user has one of that name.
    pub async fn create_token(&self, wish: &NewToken) -> Result<Token> {
        let path = format!("/access/users/{}/token/{}", encode(&wish.user), encode(&wish.name));
        let attempt = format!("making token {}!{}", wish.user, wish.name);
        let call = Call::change_all(Method::POST, attempt.clone(), path);
        let made: MadeToken = self.call(call.with("privsep", u8::from(wish.separated))).await?;
        let token = format!("{}={}", made.id, made.value).parse();
        // The answer holds a secret, so it is not repeated.
        token
            .map_err(|_| Error::new(attempt, Kind::Protocol { text: "the answer holds no token".to_owned() }))
    }
}
