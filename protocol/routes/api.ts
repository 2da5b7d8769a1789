/** The types of calls, by `GET /svc/_apps/:id`: what a client of the gateway sends and gets. Types only: rows have texts for people. */
import type { AnyRow } from './all.ts';
import type { AnswerOf, BodyOf, ParamsOf, QueryOf, RouteRow } from './row.ts';

type BelowSvc<Path extends string> = Path extends `/svc/${infer Rest}` ? `/svc/_draft/:sid/${Rest}` : never;
type Api = { [R in AnyRow as `${R['method']} ${R['path']}`]: R } & {
  [R in AnyRow as R extends { drafts: true | string } ? `${R['method']} ${BelowSvc<R['path']>}` : never]: Omit<
    R,
    'path'
  > & { readonly path: BelowSvc<R['path']> };
};

/** A route, as its method and path. */
export type RouteKey = keyof Api & string;
type RowOf<Key extends RouteKey> = Extract<Api[Key], RouteRow>;

/** What a call sends; what has no member is left out. */
export type Sent<Key extends RouteKey> = Member<'params', ParamsOf<RowOf<Key>>> &
  Member<'query', QueryOf<RowOf<Key>>> &
  Member<'body', BodyOf<RowOf<Key>>>;
/** Needed where one of its own members is. */
type Member<Name extends string, T> = undefined extends T
  ? unknown
  : keyof T extends never
    ? unknown
    : Record<never, never> extends T
      ? { readonly [N in Name]?: T }
      : { readonly [N in Name]: T };

export type Received<Key extends RouteKey> = AnswerOf<RowOf<Key>>;
