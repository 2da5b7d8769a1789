# `workerd serve` with `--directory-path data=<folder>`: one worker, its Durable Object kept on the disk.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "notes", worker = .notes), (name = "data", disk = (writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "notes")],
);

const notes :Workerd.Worker = (
  modules = [
    (name = "workerd.mjs", esModule = embed "workerd.mjs"),
    (name = "notes.mjs", esModule = embed "notes.mjs"),
    (name = "schema.sql", text = embed "../app/migrations/0001_create_notes.sql"),
  ],
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [(className = "Notes", uniqueKey = "notes", enableSql = true)],
  durableObjectStorage = (localDisk = "data"),
  bindings = [(name = "NOTES", durableObjectNamespace = "Notes")],
);
