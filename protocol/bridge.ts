/** The tag by which a page loads the page bridge (decisions, section 5). Pure. */

/** Whose page it is. In a draft, `version` names the state of its files that the page is of. */
export type PageOwner = { app: string; draft?: { session: string; version: string } };

/** The ids and the version hold no character that would need escaping. */
export function bridgeTag({ app, draft }: PageOwner): string {
  const of = draft === undefined ? '' : ` data-draft="${draft.session}" data-version="${draft.version}"`;
  return `<script src="/svc/_client.js" data-app="${app}"${of}></script>`;
}

/** What names a state of a draft's files, by the sha256 of its content in hex. */
export function draftVersion(sha256: string): string {
  return sha256.slice(0, 16);
}
