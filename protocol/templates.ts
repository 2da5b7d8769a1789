/** Templates: apps to start from (specification, "Gateway routes"; decisions, section 7). */

/** What the catalog says of a template; the last three are counts. */
export type TemplateRow = {
  id: string;
  name: string;
  description: string;
  version: string;
  source: 'bundled' | 'remote';
  queries: number;
  actions: number;
  automations: number;
};

/** An entry of a remote catalog: a gzipped tar archive of the app, and the SHA-256 of its bytes in hex. */
export type RemoteTemplate = TemplateRow & { source: 'remote'; url: string; sha256: string };

/** Puts the files of a new app into the empty folder `to`. */
export type LayOutJob = {
  /** A folder of an app; the blank one, whose words are filled in; or an archive of an app. */
  source: { template: string } | { blank: string } | { archive: string };
  to: string;
  id: string;
  /** Null: as the template calls it. */
  name: string | null;
};

/** The app's name, and its files. */
export type LayOutResult = { name: string; files: number };
