/** The types of calls, by `GET /svc/_apps/:id`: what a client of the gateway sends and gets. Types only: rows have texts for people. */
import type { AnyRow } from './resources.ts';
import type { AnswerOf, BodyOf, Given, ParamsOf, QueryOf, RouteRow } from './row.ts';

type Api = { [R in AnyRow as `${R['method']} ${R['path']}`]: R };

/** A route, as its method and path. */
export type RouteKey = keyof Api & string;
type RowOf<Key extends RouteKey> = Extract<Api[Key], RouteRow>;

/** Content that is sent as it is; browsers have files as blobs. */
export type Bytes = Uint8Array | Blob;

/**
 * What a call sends; members that are undefined are left out. A route that drafts have too is called for one with the `sid` of its
 * workspace.
 */
export type Sent<Key extends RouteKey> = Member<'params', ParamsIn<RowOf<Key>>> &
  Member<'query', Written<QueryOf<RowOf<Key>>>> &
  Member<'body', BodyOf<RowOf<Key>> extends Uint8Array ? Bytes : Given<BodyOf<RowOf<Key>>>>;
/** Numbers may be texts, as they are in an address: what a person typed is judged by the gateway. */
type Written<T> = {
  readonly [Name in keyof T]:
    | T[Name]
    | (T[Name] extends number | undefined ? string : never)
    | (undefined extends T[Name] ? undefined : never);
};
type ParamsIn<R extends RouteRow> = ParamsOf<R> &
  (R extends { drafts: true | string } ? { readonly sid?: string | undefined } : unknown);
/** Needed where one of its own members is, and refused where the route takes none. */
type Member<Name extends string, T> = undefined extends T
  ? { readonly [N in Name]?: undefined }
  : keyof T extends never
    ? { readonly [N in Name]?: undefined }
    : Record<never, never> extends T
      ? { readonly [N in Name]?: T | undefined }
      : { readonly [N in Name]: T };

export type Received<Key extends RouteKey> = AnswerOf<RowOf<Key>>;

/** Lists that are read page by page, and their rows. */
export type ListKey = {
  [Key in RouteKey]: [Received<Key>, 'limit'] extends [readonly unknown[], keyof QueryOf<RowOf<Key>>] ? Key : never;
}[RouteKey];
export type RowIn<Key extends RouteKey> = Received<Key> extends readonly (infer Row)[] ? Row : never;
