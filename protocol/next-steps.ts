/** What to do about each error code: the last column of the table in docs/http-api.md, and what the command line prints. */
import type { ErrorCode } from './errors.ts';

/**
 * Sentences of Markdown, a command last. The command line prints each on a line of its own, and replaces `<app>`, `<tool>` and
 * `<workspace>` where it knows them.
 */
export const NEXT_STEPS: Readonly<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'Correct what the message names. What each route takes: docs/http-api.md.',
  UNAUTHORIZED:
    'Send the token that `svc token` prints as `Authorization: Bearer <token>`. In a browser, sign in with a link: `svc open`.',
  FORBIDDEN:
    'Use the access token: `svc token`. For a program, make a token that may do this: `svc token create`. A page names the other apps that it calls in `uses` of its `app.json`.',
  FRESH_SIGN_IN_NEEDED: 'Sign in again, or confirm in the console that it is you, and do it within 10 minutes.',
  MISDIRECTED:
    'Use an address that the gateway serves: `svc status`. Or add this host to `allowedHosts` in the configuration.',
  NOT_FOUND: 'Check the address. All routes: docs/http-api.md.',
  METHOD_NOT_ALLOWED: 'Use one of the methods in the header `Allow`.',
  LENGTH_REQUIRED: 'Send a `Content-Length`, or use the other edge: `svc serve --edge node`.',
  PAYLOAD_TOO_LARGE: 'Send less at once: the message names the limit.',
  RANGE_NOT_SATISFIABLE: 'Ask without `Range`, or for bytes below the size in `Content-Range`.',
  HEADERS_TOO_LARGE: 'Send fewer or shorter headers. In a browser, delete the cookies of this site.',
  RATE_LIMITED: 'Wait as long as `Retry-After` says, then try again.',
  CONFLICT:
    'If the message names something that is under way, wait for its end. If it names something that exists, take another name.',
  OVERLOADED: 'Wait as long as `Retry-After` says, then try again. Who is busy: `svc status`.',
  INTERNAL:
    "Read the gateway's log (standard error of `svc serve`, or its `logFile`), which has the details. Check the machine: `svc doctor`.",
  RESERVED_ID: 'Take an id that starts with a letter or digit.',
  INVALID_ID:
    'Take an id as the message says. Apps have 1 to 63 characters from `a-z 0-9 - _`, a letter or digit first.',
  UNKNOWN_TOOL: 'Call `svc_describe`, `svc_read` or `svc_write`. What the apps can do: `svc describe`.',
  UNKNOWN_APP: 'List the apps: `svc apps`. Install one: `svc push <dir>`.',
  UNKNOWN_QUERY: 'List its queries: `svc describe <app>`.',
  UNKNOWN_ACTION: 'List its actions: `svc describe <app>`.',
  UNKNOWN_VERSION: 'List the stored versions: `svc versions <app>`.',
  WRONG_KIND: 'Call queries with `svc read`, actions with `svc write`. What it is: `svc describe <app> <tool>`.',
  INVALID_INPUT: 'Correct the value at `path`. What it takes: `svc describe <app> <tool>`.',
  NO_ACTIVE_VERSION: 'List the versions: `svc versions <app>`. Make one live: `svc activate <app> <version>`.',
  QUARANTINED: 'See why: `svc logs <app>`. Then push a version that is repaired, or try again: `svc restart <app>`.',
  HANDLER_ERROR:
    'See the details: `svc logs <app>`. If the outcome is unknown, check the data before you repeat an action.',
  NOT_CONFIRMED: 'Ask the person who uses the agent, then let it try again: each call is asked for.',
  OUTCOME_UNKNOWN: 'Look whether it is stored: `svc sql <app> "SELECT …"`. Repeat it only if it is not.',
  IDEMPOTENCY_MISMATCH: 'Take a new key for another input, or repeat the first input with this one.',
  INVALID_MANIFEST: 'Correct the field at `path` in `app.json`. What each takes: docs/app-guide.md.',
  INVALID_AUTOMATION: 'Correct the fields that `issues` names. What each takes: docs/automations.md.',
  UNKNOWN_AUTOMATION: 'List the automations: `svc automations`.',
  UNKNOWN_RUN: 'List the runs that are kept: `svc runs`.',
  TOOL_REFUSED:
    'Name the tool in `requires.tools` and the app in `apps` of `automation.json`, then push or publish it.',
  TOOL_SERVER_FAILED: 'See its state and last error: `svc status`. Then correct `mcpServers` in the configuration.',
  NO_RUNNER: 'See which agents there are, and how to get one: `svc agents`.',
  AGENT_FAILED: 'See whether the agent is signed in: `svc agents`. Then try again.',
  MODE_UNAVAILABLE:
    'Begin a new conversation in that mode. Mode `full` needs the git store: stop the gateway and move its apps with `svc convert --store git`.',
  UNKNOWN_WINDOW: 'List the conversations: `svc chats <app>`. Begin a new one: `svc chat <app>`.',
  WINDOW_DAMAGED: 'Delete the window: `svc chats rm <app> <window>`. Then begin a new one: `svc chat <app>`.',
  UNKNOWN_TURN: 'Read the conversation, which has the ids of its turns: `svc chats show <app> <window> --json`.',
  RUN_ABORTED: 'Run it again if it is still wanted: `svc run <app/automation>`. In a chat, send the message again.',
  INVALID_MIGRATION:
    'Correct the file at `path`. What was pushed before stays as it was: changes go into a new file with the next number.',
  MIGRATION_FAILED: 'Correct the SQL of the file at `path`, then push or publish again.',
  INVALID_ARCHIVE: 'Make the archive with `tar -czf`, or let `svc` do it: `svc push <dir>`.',
  ARCHIVE_ENTRY_TYPE: 'Put a file in the place of the entry at `path`, or let `svc` leave it out: `svc push <dir>`.',
  ARCHIVE_PATH: 'Rename the entry at `path`. Names are relative, and differ by more than upper and lower case.',
  ARCHIVE_EXTENSION: 'Leave out the file at `path`, or let `svc` do it: `svc push <dir>`.',
  ARCHIVE_TOO_LARGE: 'Leave out or split what the message names. What an app keeps beside its database: docs/files.md.',
  INVALID_HANDLER: 'Correct each place in `issues`. The rules: docs/handler-rules.md.',
  INVALID_PAGE: 'Correct each place in `issues`. What a page may import: docs/app-guide.md.',
  NO_GIT_STORE: 'Stop the gateway and move its apps, data stays: `svc convert --store git`.',
  UNKNOWN_SESSION: 'List the open workspaces: `svc workspaces`. Open one: `svc workspaces open`.',
  UNKNOWN_CONVERSATION: 'List the conversations: `svc chats <app>`. Begin a new one: `svc chat <app>`.',
  UNKNOWN_BLOB: 'List the files: `svc files ls <app>`. Upload one: `svc files put <app> <file>`.',
  UNKNOWN_SECRET: 'List the names: `svc secret ls <app>`. Set one: `svc secret set <app> <name>`.',
  SECRET_UNREADABLE:
    "Put the directory's own `secrets.key` back, or set the secret again: `svc secret set <app> <name>`.",
  UNKNOWN_TOKEN: 'List the tokens: `svc token ls`.',
  UNKNOWN_PERSON: 'List the people: `svc people`.',
  UNKNOWN_GROUP: 'List the groups: `svc groups`.',
  UNKNOWN_SHARE: 'List who has the app: `svc shares <app>`.',
  UNKNOWN_INVITATION: 'Ask whoever sent it for another one. Owners list them: `svc invite ls`.',
  LINK_ENDED: 'Ask whoever sent it for another one. Who shares the app lists its links: `svc shares <app>`.',
  UNKNOWN_PASSKEY: 'Look at the passkeys of the account in the console.',
  UNKNOWN_TEMPLATE: 'Take one of those that the message lists. They are explained at: `svc help new`.',
  TEMPLATE_FAILED: 'Check the address and the `sha256` in the catalog of `templatesUrl`, then restart the gateway.',
  FETCH_FAILED:
    "Open the address in a browser of the gateway's machine: it has to give the archive itself, not a page.",
  SESSION_DAMAGED: 'Copy what you need from its worktree. Then close it: `svc workspaces rm <workspace>`.',
  PRECONDITION_FAILED: 'Read the file again, make the change in it, and send it with its new `ETag`.',
  NO_CHANGES: 'Change something first: `svc dev <dir> --workspace <workspace>`.',
  MERGE_CONFLICT:
    'Take the published lines in: `svc workspaces update <workspace> --app <app>`. Choose between the marks, then publish again: `svc publish <app> --workspace <workspace>`.',
  STORE_DAMAGED:
    'Give an app its data again, where the message names that: `svc repair <app> --restore <backup>`. Else restore a backup into a new directory: `svc restore <file> --data-dir <dir>`.',
  UNKNOWN_TRASH: 'List what it has: `svc trash`.',
  WOULD_REPLACE:
    'See what changed: `svc versions <app>`. Take it into your folder: `svc pull <app> <dir>`. Or replace it with yours: `svc push <dir> --force`.',
  VERSION_ACTIVE: 'Make another version live first: `svc activate <app> <version>`.',
  BACKUP_TOO_LARGE: 'Make the data smaller, or copy the data directory while the gateway is stopped.',
  INVALID_BACKUP: 'Use another backup: this one was changed or cut off.',
  BACKUP_FOLDER: 'Give the gateway a folder that it can write to: `svc backup <folder> --schedule "<cron>"`.',
  DATA_FORMAT:
    'Run the release that the message names, or a newer one; where it names none, restore a backup. How to go back: docs/operations.md#upgrade-and-downgrade.',
  RESTORE_TARGET: 'Name a directory that is empty or missing: `svc restore <file> --data-dir <dir>`.',
  STORAGE_FULL: 'Free some space on the disk of the data directory, then try again. How much is free: `svc doctor`.',
  STORAGE_UNAVAILABLE:
    'Try again, with the same idempotency key, after the time that `Retry-After` names. If it goes on, look at the nodes and at their PostgreSQL.',
  NOT_IN_CLUSTER: 'Do that, or ask for one app at a time.',
  NO_CLUSTER: 'Start it with a database that it shares with other nodes: docs/cluster.md.',
  LAST_NODE: 'Start another node, or end the draining of one: `svc cluster drain <node> --undo`.',
  QUOTA_EXCEEDED: 'Delete files that the app no longer needs, or raise `blobQuotaMb` in its `app.json`.',
};
