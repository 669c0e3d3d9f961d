//! What an administrator sets up for a token: role, user, token, rights; and reading them back, so that it can be done again.

use http::Method;
use serde::Deserialize;

use crate::client::{Call, Client};
use crate::error::{Error, Kind, Result};
use crate::percent::encode;
use crate::scalar;
use crate::token::Token;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Role {
    #[serde(rename = "roleid")]
    pub name: String,
    #[serde(default, rename = "privs", deserialize_with = "scalar::list")]
    pub privileges: Vec<String>,
}

/// A line of an access control list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Granted {
    /// The path in the tree of permissions that it is for.
    pub path: String,
    /// `user`, `group` or `token`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the user, group or token.
    #[serde(rename = "ugid")]
    pub whom: String,
    /// The role that is granted.
    #[serde(rename = "roleid")]
    pub role: String,
    /// Whether it holds below the path as well.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub propagate: bool,
}

/// A right to be given to a user and to a token of the user. A token with rights of its own has what both have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The path in the tree of permissions that it is for.
    pub path: String,
    pub role: String,
    /// The user, `name@realm`.
    pub user: String,
    /// The token, `name@realm!token`.
    pub token: String,
    /// Whether it holds below the path as well.
    pub propagate: bool,
}

/// A right to be taken away again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revocation {
    /// The path in the tree of permissions that it is for.
    pub path: String,
    pub role: String,
    /// The user or the token.
    pub whom: String,
    /// Whether it is a token.
    pub is_token: bool,
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
    /// What to write about it; may be empty.
    pub comment: String,
}

#[derive(Deserialize)]
struct MadeToken {
    #[serde(rename = "full-tokenid")]
    id: String,
    value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// Its name, `name@realm`.
    #[serde(rename = "userid")]
    pub name: String,
    #[serde(default)]
    pub comment: String,
}

/// A token of a user, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UserToken {
    #[serde(rename = "tokenid")]
    pub name: String,
    #[serde(default)]
    pub comment: String,
}

impl Client {
    /// All roles.
    pub async fn roles(&self) -> Result<Vec<Role>> {
        self.call(Call::get("listing the roles", "/access/roles")).await
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

    /// Gives a role more privileges.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when there is none of that name.
    pub async fn add_to_role(&self, name: &str, privileges: &[&str]) -> Result<()> {
        let path = format!("/access/roles/{}", encode(name));
        let call = Call::change_all(Method::PUT, format!("adding privileges to role {name}"), path);
        self.call(call.with("privs", privileges.join(",")).with("append", 1)).await
    }

    /// Removes a role. Accounts that have it keep an entry without a meaning, so check [`Self::granted`] before.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when there is none of that name.
    pub async fn delete_role(&self, name: &str) -> Result<()> {
        let path = format!("/access/roles/{}", encode(name));
        self.call(Call::change_all(Method::DELETE, format!("removing role {name}"), path)).await
    }

    /// All users that the caller may see.
    pub async fn users(&self) -> Result<Vec<User>> {
        self.call(Call::get("listing the users", "/access/users")).await
    }

    /// Removes a user, with its tokens and rights. One that is not there is no failure.
    pub async fn delete_user(&self, user: &str) -> Result<()> {
        let path = format!("/access/users/{}", encode(user));
        self.call(Call::change_all(Method::DELETE, format!("removing user {user}"), path)).await
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

    /// A user's tokens.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when there is no such user.
    pub async fn tokens(&self, user: &str) -> Result<Vec<UserToken>> {
        let path = format!("/access/users/{}/token", encode(user));
        self.call(Call::get(format!("listing the tokens of {user}"), path)).await
    }

    /// Makes a token. Its secret is told this once.
    ///
    /// # Errors
    ///
    /// [`Kind::Parameter`] when the user has one of that name.
    pub async fn create_token(&self, request: &NewToken) -> Result<Token> {
        let path = format!("/access/users/{}/token/{}", encode(&request.user), encode(&request.name));
        let attempt = format!("making token {}!{}", request.user, request.name);
        let call = Call::change_all(Method::POST, attempt.clone(), path);
        let mut call = call.with("privsep", u8::from(request.separated));
        if !request.comment.is_empty() {
            call = call.with("comment", &request.comment);
        }
        let made: MadeToken = self.call(call).await?;
        let token = format!("{}={}", made.id, made.value).parse();
        // The answer holds a secret, so it is not repeated.
        token
            .map_err(|_| Error::new(attempt, Kind::Protocol { text: "the answer holds no token".to_owned() }))
    }

    /// Removes a token, with its rights.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when there is none of that name.
    pub async fn delete_token(&self, user: &str, name: &str) -> Result<()> {
        let path = format!("/access/users/{}/token/{}", encode(user), encode(name));
        self.call(Call::change_all(Method::DELETE, format!("removing token {user}!{name}"), path)).await
    }

    /// The access control lists at all paths whose rights the caller may change.
    pub async fn granted(&self) -> Result<Vec<Granted>> {
        self.call(Call::get("reading the access control lists", "/access/acl")).await
    }

    /// Takes a role at a path from a user or a token. One that does not have it is no failure.
    pub async fn revoke(&self, revocation: &Revocation) -> Result<()> {
        let Revocation { path, role, whom, is_token } = revocation;
        let attempt = format!("taking the role {role} at {path} from {whom}");
        let call = Call::change_all(Method::PUT, attempt, "/access/acl");
        let call = call.with("path", path).with("roles", role).with("delete", 1);
        self.call(call.with(if *is_token { "tokens" } else { "users" }, whom)).await
    }

    /// Gives a user and its token a role at a path.
    pub async fn grant(&self, grant: &Grant) -> Result<()> {
        let Grant { path, role, user, token, propagate } = grant;
        let attempt = format!("giving {token} the role {role} at {path}");
        let call = Call::change_all(Method::PUT, attempt, "/access/acl");
        let call = call.with("path", path).with("roles", role).with("users", user).with("tokens", token);
        self.call(call.with("propagate", u8::from(*propagate))).await
    }
}
