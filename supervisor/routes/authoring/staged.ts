/** Reads where a change of an app is staged, and shows what became of it (specification, "Changes without an editor"). */
import type { RouteRow } from '../../../protocol/routes/row.ts';
import type { Staged, StagingOptions } from '../../authoring/authoring.ts';
import type { PublishResult } from '../../deployments/deployed.ts';
import { publisherIn } from '../../http/access/person.ts';
import type { Services } from '../../services.ts';
import { publicOriginOf } from '../requests.ts';
import type { Request } from '../serve-row.ts';

type Asked = Pick<Request<RouteRow>, 'headers' | 'caller'> & {
  readonly body: { sessionId?: string; publish?: boolean };
};

export function whereOf(services: Services, { body, headers, caller }: Asked): StagingOptions {
  const { sessionId, publish = false } = body;
  const origin = publicOriginOf(headers.host, services);
  return { ...(sessionId === undefined ? {} : { sessionId }), publish, origin, ...publisherIn(caller) };
}

/** Records what was published, if it was. */
export async function recorded(services: Services, { caller }: Asked, staged: Staged): Promise<Staged> {
  const { app, published } = staged;
  if (published !== undefined) await services.audit.record(caller, 'app.published', app, { version: published.tag });
  return staged;
}

type Shown = Pick<Staged, 'app' | 'sessionId' | 'staged'> &
  Partial<Pick<PublishResult, 'version' | 'tag' | 'sha' | 'migrationsApplied'>>;

/** The version, where there is one, is what `publish` of a workspace answers. */
export function shown({ app, sessionId, staged, published }: Staged): Shown {
  if (published === undefined) return { app, sessionId, staged };
  const { version, tag, sha, migrationsApplied } = published;
  return { app, sessionId, staged, version, tag, sha, migrationsApplied };
}
