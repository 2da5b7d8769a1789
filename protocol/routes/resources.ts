/** Lists the resources of the gateway, in the order of the reference. */
import { AGENTS } from './agents/agents-rows.ts';
import { CHAT } from './agents/chat-rows.ts';
import { CONVERSATIONS } from './agents/conversations-rows.ts';
import { MCP } from './agents/mcp-rows.ts';
import { APPS } from './apps/apps-rows.ts';
import { FILES } from './apps/files-rows.ts';
import { NEW_APPS } from './apps/new-apps-rows.ts';
import { PAGES } from './apps/pages-rows.ts';
import { SECRETS } from './apps/secrets-rows.ts';
import { SETTINGS_AND_PREFERENCES } from './apps/settings-rows.ts';
import { STREAMS } from './apps/streams-rows.ts';
import { TOOLS } from './apps/tools-rows.ts';
import { TRASH } from './apps/trash-rows.ts';
import { VERSIONS } from './apps/versions-rows.ts';
import { DRAFTS } from './authoring/drafts-rows.ts';
import { WORKSPACES } from './authoring/workspaces-rows.ts';
import { AUTOMATIONS } from './automations/automations-rows.ts';
import { RUNS } from './automations/runs-rows.ts';
import { AUDIT } from './operations/audit-rows.ts';
import { BACKUPS } from './operations/backups-rows.ts';
import { CLUSTER } from './operations/cluster-rows.ts';
import { CODE } from './operations/code-rows.ts';
import { NOTICES } from './operations/notices-rows.ts';
import { SYSTEM } from './operations/system-rows.ts';
import { TOKENS } from './operations/tokens-rows.ts';
import { ACCOUNTS } from './people/accounts-rows.ts';
import { CONNECTIONS, OAUTH } from './people/oauth-rows.ts';
import { PASSKEYS } from './people/passkey-rows.ts';
import { GROUPS, INVITATIONS, PEOPLE } from './people/people-rows.ts';
import { PROVIDERS } from './people/providers-rows.ts';
import { SHARES } from './people/shares-rows.ts';
import { SIGN_IN } from './people/sign-in-rows.ts';
import type { Resource } from './row.ts';

const ALL = [
  ACCOUNTS,
  AGENTS,
  APPS,
  AUDIT,
  AUTOMATIONS,
  BACKUPS,
  CHAT,
  CLUSTER,
  CODE,
  OAUTH,
  CONNECTIONS,
  CONVERSATIONS,
  DRAFTS,
  FILES,
  GROUPS,
  INVITATIONS,
  MCP,
  NEW_APPS,
  NOTICES,
  PAGES,
  PASSKEYS,
  PEOPLE,
  PROVIDERS,
  RUNS,
  SECRETS,
  WORKSPACES,
  SETTINGS_AND_PREFERENCES,
  SHARES,
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
