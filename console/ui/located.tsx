/** A text in which places in an app's files, such as `queries/list.js:3:7`, are links to those lines in the Code view. */
import type { ComponentChildren } from 'preact';
import { hrefOf } from '../address.ts';

/** A file by its path in the app, not at the end of a longer path or an address; its line and, where it is known, its column. */
const PLACE = /(?<![\w./:@-])((?:[\w@-][\w.@-]*\/)*[\w@-][\w.@-]*\.(?:[cm]?[jt]s|json|sql|html|css)):(\d+)(?::(\d+))?/g;

/** `version` is the one whose files the text is about; by default the live one. */
export type Owner = { app: string; version?: string | undefined };

/** The link to a file of an app, and to a line in it. */
export const placeHref = ({ app, version }: Owner, file: string, line?: number | string, column?: number | string) =>
  hrefOf(['apps', app, 'code'], { version, file, line, column });

/** Texts and links, in their order. */
export function linked(text: string, owner: Owner): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const { 0: whole, 1: file = '', 2: line, 3: column, index } of text.matchAll(PLACE)) {
    parts.push(
      text.slice(end, index),
      <a key={index} href={placeHref(owner, file, line, column)}>
        {whole}
      </a>,
    );
    end = index + whole.length;
  }
  return [...parts, text.slice(end)];
}

export function Located({ text, ...owner }: { text: string } & Owner) {
  return <>{linked(text, owner)}</>;
}
