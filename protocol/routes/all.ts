/** Lists the resources of the gateway, in the order of the reference. */
import { AGENTS } from './agents.ts';
import { APPS } from './apps.ts';
import { AUTOMATIONS } from './automations.ts';
import { BACKUPS } from './backups.ts';
import { CHAT } from './chat.ts';
import { CODE } from './code.ts';
import { CONVERSATIONS } from './conversations.ts';
import { DRAFTS } from './drafts.ts';
import { FILES } from './files.ts';
import { MCP } from './mcp.ts';
import { NEW_APPS } from './new-apps.ts';
import { NOTICES } from './notices.ts';
import { PAGES } from './pages.ts';
import type { Resource } from './row.ts';
import { RUNS } from './runs.ts';
import { SECRETS } from './secrets.ts';
import { SESSIONS } from './sessions.ts';
import { SETTINGS_AND_PREFERENCES } from './settings.ts';
import { SIGN_IN } from './sign-in.ts';
import { STREAMS } from './streams.ts';
import { SYSTEM } from './system.ts';
import { TOKENS } from './tokens.ts';
import { TOOLS } from './tools.ts';
import { TRASH } from './trash.ts';
import { VERSIONS } from './versions.ts';

const ALL = [
  AGENTS,
  APPS,
  AUTOMATIONS,
  BACKUPS,
  CHAT,
  CODE,
  CONVERSATIONS,
  DRAFTS,
  FILES,
  MCP,
  NEW_APPS,
  NOTICES,
  PAGES,
  RUNS,
  SECRETS,
  SESSIONS,
  SETTINGS_AND_PREFERENCES,
  SIGN_IN,
  STREAMS,
  SYSTEM,
  TOKENS,
  TOOLS,
  TRASH,
  VERSIONS,
] as const;

/** Every row, with its literal types. */
export type AnyRow = (typeof ALL)[number]['rows'][number];

export const RESOURCES: readonly Resource[] = ALL;
