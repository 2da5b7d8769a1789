/** What the system says of a file or a folder on this side, as a sentence. */

const REASONS: Record<string, string> = {
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  EROFS: 'the disk is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota is used up',
  EFBIG: 'it would be too large',
  EIO: 'the disk reports a fault',
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'what should be a folder is a file',
  EISDIR: 'it is a folder',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead round in a circle',
};

const DONE: Record<string, string> = {
  mkdir: 'made',
  mkdtemp: 'made',
  open: 'opened',
  scandir: 'listed',
  opendir: 'listed',
  read: 'read',
  write: 'written',
  unlink: 'removed',
  rmdir: 'removed',
  rm: 'removed',
};

/** `<path> cannot be opened: permission is denied.` Null for an error of another kind, or one that names no path. */
export function fileFault(error: unknown): string | null {
  const { code = '', syscall = '', path, dest } = error as NodeJS.ErrnoException & { dest?: string };
  const reason = REASONS[code];
  if (!(error instanceof Error) || reason === undefined || typeof path !== 'string') return null;
  return `${dest ?? path} cannot be ${DONE[syscall] ?? 'used'}: ${reason}.`;
}

/** The reason alone, where the error names no path, or not the one that people know. */
export function reasonOf({ code = '', message }: NodeJS.ErrnoException): string {
  return REASONS[code] ?? message;
}
