/** For the routes that need the git store. */
import { SvcError } from '../../protocol/errors.ts';
import type { GitStoreServices } from '../authoring/open-authoring.ts';
import type { Services } from '../services.ts';

/** Looked up with each request: the table of routes is made without a gateway too. Throws `NO_GIT_STORE`. */
export function gitStoreOf({ gitStore }: Pick<Services, 'gitStore'>): NonNullable<GitStoreServices> {
  if (gitStore) return gitStore;
  throw new SvcError('NO_GIT_STORE', 'Drafts need the git store: svc serve --store git.');
}
