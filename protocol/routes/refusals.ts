/** Says with which error codes a route can answer: with those of its row, and with those that routes have in common. */
import type { ErrorCode } from '../errors.ts';
import type { RouteRow, RowErrors } from './row.ts';

/** Of a request that reaches no route: the edge or the router refuses it. `FORBIDDEN`: for a service worker. */
export const BEFORE_ROUTES: readonly ErrorCode[] = [
  'MISDIRECTED',
  'FORBIDDEN',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'LENGTH_REQUIRED',
  'HEADERS_TOO_LARGE',
];
const GENERAL: readonly ErrorCode[] = [
  'BAD_REQUEST',
  'PAYLOAD_TOO_LARGE',
  'OVERLOADED',
  'STORE_DAMAGED',
  'STORAGE_FULL',
  'STORAGE_UNAVAILABLE',
  'INTERNAL',
];
/** Not of routes that need no token. */
const CLOSED: readonly ErrorCode[] = ['UNAUTHORIZED', 'FORBIDDEN'];
/** What keeps a draft from being prepared. */
export const DRAFT_FAULTS = {
  INVALID_MANIFEST: '',
  INVALID_MIGRATION: '',
  INVALID_AUTOMATION: '',
  MIGRATION_FAILED: '',
  ARCHIVE_ENTRY_TYPE: '',
  ARCHIVE_PATH: '',
  ARCHIVE_EXTENSION: '',
  ARCHIVE_TOO_LARGE: '',
} as const satisfies RowErrors;
const OF_DRAFTS = [
  'UNKNOWN_SESSION',
  'SESSION_DAMAGED',
  'NO_GIT_STORE',
  ...(Object.keys(DRAFT_FAULTS) as ErrorCode[]),
] as const;

/** `path` is that of the row, or of the same for drafts. */
export function errorCodesOf({ needs, path: live, errors = {} }: RouteRow, path: string): ErrorCode[] {
  const codes = [
    ...GENERAL,
    ...(needs === 'anyone' ? [] : CLOSED),
    ...(path === live ? [] : OF_DRAFTS),
    ...(Object.keys(errors) as ErrorCode[]),
  ];
  return [...new Set(codes)];
}
