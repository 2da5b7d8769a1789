/** The types of an app's manifest, `app.json` (specification, "Members of the manifest"). */
import type { InputIssue } from './errors.ts';
import type { KeptReason } from './wire/commons.ts';

export type JsonSchema = boolean | { [keyword: string]: unknown };

export type QueryDefinition = {
  name: string;
  description?: string;
  input?: JsonSchema;
  output?: JsonSchema;
  timeoutMs?: number;
  public?: boolean;
  reads?: string[];
  /** How often a live query runs again without a write. */
  refreshSeconds?: number;
  /** In a host of MCP Apps, a call by the model shows the app's page. */
  opensPage?: boolean;
  [member: string]: unknown;
};

export type ActionDefinition = {
  name: string;
  description?: string;
  confirmation?: 'none' | 'required';
  input?: JsonSchema;
  output?: JsonSchema;
  timeoutMs?: number;
  public?: boolean;
  writes?: string[];
  /** As of a query. */
  opensPage?: boolean;
  [member: string]: unknown;
};

/** A setting that the page takes as `data-<key>`. */
export type Knob = {
  key: string;
  label: string;
  type: 'segmented' | 'swatch';
  default: string;
  options: { value: string; label: string }[];
};

/** A role that an app adds: which of its tools those may call who have it. `*` is all. */
export type RoleDefinition = {
  name: string;
  description?: string;
  queries: '*' | string[];
  actions: '*' | string[];
};

/** What the `svc_sql_*` tools may do in a chat. */
export type ChatSql = false | 'read' | 'write';

/** A checked manifest: `queries` and `actions` exist, unknown members are kept. */
export type Manifest = {
  id: string;
  name: string;
  version: string;
  manifestVersion?: number;
  description?: string;
  kind?: 'app' | 'automation';
  tables?: unknown;
  knobs?: Knob[];
  /** Visitors without a token may open its page and files; of a tool: call it. */
  public?: boolean;
  /** Other apps whose tools its pages may call. */
  uses?: string[];
  /** Roles beside `viewer`, `editor` and `manager`, by id. */
  roles?: Record<string, RoleDefinition>;
  /** The only hosts that `ctx.fetch` may connect to, as patterns; without it, those that the operator allows. */
  network?: string[];
  /** Quota of its files, in MiB. */
  blobQuotaMb?: number;
  /** Chats that were opened by its own pages; `sql` is `read` by default. */
  chat?: { sql?: ChatSql };
  /** What its page is built from; without it, files of the page are served as they are. */
  page?: { entry?: string };
  /** False where the results of its queries are not to be kept. */
  cache?: boolean;
  /** Keeps its queries out of the commons. */
  thread?: 'own';
  queries: QueryDefinition[];
  actions: ActionDefinition[];
  [member: string]: unknown;
};

type ToolSummary = { name: string; description?: string; timeoutMs?: number; public?: true };
/** One query as the supervisor keeps it in memory. */
export type QuerySummary = ToolSummary & { refreshSeconds?: number };
export type ActionSummary = ToolSummary & { confirmation?: 'none' | 'required'; writes: string[] };

/**
 * The page as one document for hosts of MCP Apps (`prepared/<versionId>/page.html`), or why it cannot be one. `bridgeAt` is where
 * the bridge goes into the tag that is there for it, in bytes; `sha256` is that of the file, in hex.
 */
export type PageDocument = { bytes: number; bridgeAt: number; sha256: string } | { faults: InputIssue[] };

/** What the supervisor keeps of a version (`prepared/<versionId>/version.json`). Times in milliseconds since 1970. */
export type VersionSummary = {
  versionId: string;
  /** sha256 of the content: names and bytes of the files, not of the archive's wrapper. */
  sha256: string;
  /** sha256 of `app.json`, by which a later edit of the file is noticed. */
  manifestSha256: string;
  uploadedAt: number;
  files: number;
  bytes: number;
  name: string;
  version: string;
  description?: string;
  kind: 'app' | 'automation';
  queries: QuerySummary[];
  actions: ActionSummary[];
  knobs: Knob[];
  /** Visitors may open the page and files. */
  public?: true;
  /** Ids of the apps whose tools its pages may call; absent when there are none. */
  uses?: string[];
  /** As in the manifest; absent when there are none. */
  roles?: Record<string, RoleDefinition>;
  /** As in the manifest. */
  network?: string[];
  blobQuotaMb?: number;
  /** Only where results are not to be kept. */
  cache?: false;
  /** Whether its queries can run in the commons, or why not. Absent in drafts, and in versions that an older release prepared. */
  commons?: true | { kept: KeptReason; detail: string };
  /** Numbers 1…n of the migrations this version has. */
  migrations: number;
  automations: number;
  /** Names of files `automations/<name>.json`, which the gateway does not read; absent when there are none. */
  flatAutomations?: string[];
  /** Findings that do not prevent storing the version, of the handler rules and about its icon; absent when there are none. */
  warnings?: InputIssue[];
  /** Absent without a page, and in versions that an older release prepared. */
  page?: PageDocument;
  /** It has `icon-192.png`, of its own or drawn; absent in versions that an older release prepared. */
  icon?: true;
} & VersionNote;

/** What is known of a publication beside its files: what was said of it, and the name of the person or program that made it. */
export type VersionNote = { message?: string; by?: string };

type Published = { public?: unknown; queries?: Named[]; actions?: Named[] };
type Named = { name: string; public?: unknown };

/** What visitors may use without a token, such as `page`, `query list` and `action send`, of a manifest or a version. */
export function publicParts({ public: page, queries = [], actions = [] }: Published): string[] {
  const named = (kind: string, tools: Named[]) =>
    tools.filter((tool) => tool.public === true).map(({ name }) => `${kind} ${name}`);
  return [...(page === true ? ['page'] : []), ...named('query', queries), ...named('action', actions)];
}

/** One servable file of a version (`prepared/<versionId>/static.json`: path → entry). */
export type StaticEntry = {
  type: string;
  /** Strong ETag with its quotes, from the sha256 of the bytes that are served. */
  etag: string;
  bytes: number;
  /** Served from the prepared folder (HTML with the bridge in it, a drawn icon) instead of the version's own. */
  prepared?: boolean;
  /** Sizes of the compressed copies beside it, where they are smaller. */
  br?: number;
  gzip?: number;
  /** sha256 sources of the page's inline scripts, for its policy. */
  scriptHashes?: string[];
};
