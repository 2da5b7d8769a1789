/** Every crash point of the product: the step that is done when it is passed, and an operation that passes it. */
import { table } from '../../table.ts';
import { AUTHORING_FILES, AUTHORING_POINTS } from './authoring-points.ts';

export type PointRow = {
  /** What has just been done. */
  after: string;
  /** The name of an operation; or of one in the repair of whose crashes it is passed. */
  in: string;
  /** What is found afterwards: `same` where old and new do not differ, `either` where it depends on whose point it was. */
  outcome: 'old' | 'new' | 'same' | 'either';
  /** Whether only a repair passes it. */
  repair?: true;
};

const PACKING = 'start that packs, git';

export const POINTS: Record<string, PointRow> = {
  'file.created': { outcome: 'old', after: 'the temporary file is there, empty', in: 'settings' },
  'file.written': { outcome: 'old', after: 'it has its content', in: 'settings' },
  'file.synced': { outcome: 'old', after: 'the content is on the disk', in: 'settings' },
  'file.renamed': { outcome: 'new', after: 'it has the name of the file it replaces', in: 'settings' },
  'file.durable': { outcome: 'new', after: 'the name is on the disk', in: 'settings' },
  'file.removed': { outcome: 'new', after: 'a file is removed', in: 'upload with migrations' },
  'folder.made': { outcome: 'same', after: 'a folder is made', in: 'first start' },
  'move.folder-made': { outcome: 'new', after: 'the folder to move to is there', in: 'delete to the trash' },
  'move.renamed': { outcome: 'new', after: 'the folder is moved', in: 'delete to the trash' },
  'move.target-synced': { outcome: 'new', after: 'its new name is on the disk', in: 'delete to the trash' },
  'copy.copied': {
    outcome: 'new',
    after: 'a copy lies on the other disk, under a temporary name',
    in: 'delete to a trash on another disk',
  },
  'copy.arrived': { outcome: 'new', after: 'the copy has its name', in: 'delete to a trash on another disk' },
  'copy.source-aside': {
    outcome: 'new',
    after: 'what was copied has a temporary name',
    in: 'delete to a trash on another disk',
  },
  'copy.source-removed': {
    outcome: 'new',
    after: 'what was copied is removed',
    in: 'delete to a trash on another disk',
  },
  'lock.written': { outcome: 'same', after: "the lock's content is in a temporary file", in: 'first start' },
  'lock.stale-aside': { outcome: 'same', after: "a dead gateway's lock is set aside", in: 'start after a crash' },
  'lock.stale-removed': { outcome: 'same', after: "a dead gateway's lock is removed", in: 'start after a crash' },
  'lock.taken': { outcome: 'same', after: 'the lock is taken', in: 'first start' },
  'lock.tidied': { outcome: 'same', after: 'the temporary file is removed', in: 'first start' },
  'children.written': { outcome: 'same', after: 'the record of child processes is written', in: 'first start' },
  'children.recorded': { outcome: 'same', after: 'it has its name', in: 'first start' },
  'registry.put-aside': { outcome: 'same', after: 'a damaged registry is set aside', in: 'start after a crash' },
  'sweep.removed': {
    outcome: 'same',
    after: 'an entry of tmp/ or trash/, or a temporary file, is removed',
    in: 'start after a crash',
  },
  'sweep.unregistered': {
    outcome: 'either',
    after: 'the folder of an app that is not registered is gone',
    in: 'delete to the trash',
    repair: true,
  },
  'repair.versions-whole': { outcome: 'same', after: 'half versions are removed', in: 'start after a crash' },
  'repair.activation-finished': {
    outcome: 'either',
    after: 'the pointer follows the migrated data',
    in: 'upload with migrations',
    repair: true,
  },
  'repair.incoming-settled': {
    outcome: 'either',
    after: 'a version that did not become active is removed',
    in: 'upload with migrations',
    repair: true,
  },
  'upload.staging-made': { outcome: 'old', after: 'the staging folder is made', in: 'first upload' },
  'upload.received': { outcome: 'old', after: 'the archive is received', in: 'first upload' },
  'ingest.unpacked': { outcome: 'old', after: 'the archive is unpacked', in: 'first upload' },
  'ingest.prepared': { outcome: 'old', after: 'validators and static copies are written', in: 'first upload' },
  'ingest.synced': { outcome: 'old', after: 'everything staged is on the disk', in: 'first upload' },
  'upload.staged': { outcome: 'old', after: 'the job has answered', in: 'first upload' },
  'upload.cleared': {
    outcome: 'old',
    after: 'the name is free, and a new folder is marked disposable',
    in: 'first upload',
  },
  'upload.announced': { outcome: 'old', after: 'the version to come is noted', in: 'upload with migrations' },
  'upload.keys-kept': {
    outcome: 'old',
    after: 'the keys of its signed webhooks are kept',
    in: 'upload with webhooks',
  },
  'install.folders-made': { outcome: 'old', after: "the versions' folders are there", in: 'first upload' },
  'install.cleared': { outcome: 'old', after: 'an earlier try is removed', in: 'first upload' },
  'install.prepared-placed': { outcome: 'old', after: 'what was prepared is in place', in: 'first upload' },
  'install.code-placed': { outcome: 'old', after: 'the code is in place', in: 'first upload' },
  'upload.stored': { outcome: 'old', after: 'the version is whole', in: 'first upload' },
  'activation.backups-folder-made': {
    outcome: 'old',
    after: 'the folder of the backups is there',
    in: 'upload with migrations',
  },
  'activation.intended': { outcome: 'old', after: 'the activation is noted', in: 'upload with migrations' },
  'backup.copied': {
    outcome: 'old',
    after: 'the data is copied, under a temporary name',
    in: 'upload with migrations',
  },
  'backup.synced': { outcome: 'old', after: 'the copy is on the disk', in: 'upload with migrations' },
  'backup.renamed': { outcome: 'old', after: 'the copy has its name', in: 'upload with migrations' },
  'backup.durable': { outcome: 'old', after: 'the name is on the disk', in: 'upload with migrations' },
  'migrate.begun': {
    outcome: 'old',
    after: 'the transaction of the migrations has begun',
    in: 'upload with migrations',
  },
  'migrate.file-applied': { outcome: 'old', after: 'a migration is applied', in: 'upload with migrations' },
  'migrate.file-counted': { outcome: 'old', after: 'user_version counts it', in: 'upload with migrations' },
  'migrate.checked': { outcome: 'old', after: 'foreign keys are checked', in: 'upload with migrations' },
  'migrate.committed': { outcome: 'new', after: 'the migrations are committed', in: 'upload with migrations' },
  'activation.migrated': { outcome: 'new', after: 'the supervisor knows', in: 'upload with migrations' },
  'activation.pointer-flipped': {
    outcome: 'new',
    after: 'the pointer names the new version',
    in: 'upload with migrations',
  },
  'activation.settled': {
    outcome: 'new',
    after: 'the note of the activation is removed',
    in: 'upload with migrations',
  },
  'activation.backup-pruned': { outcome: 'new', after: 'an old backup is removed', in: 'upload with migrations' },
  'upload.activated': { outcome: 'old', after: 'the version is active', in: 'first upload' },
  'upload.registered': { outcome: 'new', after: 'the app is registered', in: 'first upload' },
  'upload.swapped': { outcome: 'new', after: 'calls go to the new version', in: 'upload with migrations' },
  'upload.pruned': { outcome: 'new', after: 'old versions are removed', in: 'upload with migrations' },
  'upload.staging-removed': { outcome: 'new', after: 'the staging folder is removed', in: 'first upload' },
  'upload.refused': { outcome: 'same', after: 'the upload has failed', in: 'upload whose migration fails' },
  'upload.undone': { outcome: 'same', after: 'its version is removed', in: 'upload whose migration fails' },
  'keys.pruned': {
    outcome: 'same',
    after: 'keys of webhooks that no version has are removed',
    in: 'upload with webhooks whose migration fails',
  },
  'switch.written': { outcome: 'new', after: 'the switch is in the file', in: 'switching an automation off' },
  'provision.key-kept': { outcome: 'old', after: 'the key of a webhook is kept', in: 'minting a webhook' },
  'provision.minted': { outcome: 'new', after: 'its address is in the file', in: 'minting a webhook' },
  'activate.active': { outcome: 'new', after: 'the pointer names the version', in: 'rollback' },
  'remove-version.code-gone': { outcome: 'new', after: 'the code is out of its place', in: 'delete a version' },
  'remove-version.prepared-gone': { outcome: 'new', after: 'what was prepared is removed', in: 'delete a version' },
  'remove-version.done': { outcome: 'new', after: 'the code is removed', in: 'delete a version' },
  'remove.marked': {
    outcome: 'old',
    after: 'the folder is marked disposable if it is to be purged',
    in: 'delete with purge',
  },
  'remove.deregistered': { outcome: 'new', after: 'the app is not registered any more', in: 'delete to the trash' },
  'remove.let-go': { outcome: 'new', after: 'its actor has stopped and its file is closed', in: 'delete to the trash' },
  'remove.done': { outcome: 'new', after: 'its folder is in the trash, or removed', in: 'delete to the trash' },
  'purge.moved': { outcome: 'new', after: 'its folder is out of its place', in: 'delete with purge' },
  'ingest.committed': { outcome: 'old', after: 'the git store has its commit', in: 'first upload, git' },
  'git.objects-staged': { outcome: 'old', after: 'objects lie under temporary names', in: 'first upload, git' },
  'git.objects-durable': { outcome: 'old', after: 'the objects are on the disk', in: 'first upload, git' },
  'link.folders-made': { outcome: 'old', after: "the versions' folders are there", in: 'first upload, git' },
  'link.cleared': { outcome: 'old', after: 'an earlier try is removed', in: 'first upload, git' },
  'link.prepared-placed': { outcome: 'old', after: 'what was prepared is in place', in: 'first upload, git' },
  'link.code-placed': { outcome: 'old', after: 'the code is where its commit says', in: 'first upload, git' },
  'link.made': { outcome: 'old', after: "the version's folder is a link to it", in: 'first upload, git' },
  'git.locked': { outcome: 'new', after: 'the refs are locked', in: 'upload with migrations, git' },
  'git.tagged': { outcome: 'new', after: 'the tag is there', in: 'upload with migrations, git' },
  'git.main-moved': { outcome: 'new', after: 'main has the version', in: 'upload with migrations, git' },
  'pack.written': {
    outcome: 'same',
    after: 'a pack and its index are on the disk, under temporary names',
    in: PACKING,
  },
  'pack.announced': { outcome: 'same', after: 'a mark says what the pack replaces', in: PACKING },
  'pack.placed': { outcome: 'same', after: 'the pack has its name', in: PACKING },
  'pack.indexed': { outcome: 'same', after: 'its index has its name', in: PACKING },
  'pack.replaced': { outcome: 'same', after: 'the objects that it has are not loose any more', in: PACKING },
  'pack.done': { outcome: 'same', after: 'the mark is removed', in: PACKING },
  'store.refs-moved': { outcome: 'new', after: 'the supervisor knows', in: 'upload with migrations, git' },
  'store.settled': {
    outcome: 'new',
    after: 'refs and active-main follow the pointer',
    in: 'upload with migrations, git',
  },
  'store.finished': { outcome: 'new', after: 'the note of the change is removed', in: 'upload with migrations, git' },
  'store.tree-committed': { outcome: 'old', after: "the old version's tree has a commit", in: 'rollback, git' },
  'unlink.code-removed': {
    outcome: 'old',
    after: 'the code that the link led to is removed',
    in: 'delete a version, git',
  },
  'store.tag-retired': { outcome: 'new', after: 'its tag is set aside', in: 'delete a version, git' },
  'store.removal-committed': { outcome: 'new', after: 'main has the app no more', in: 'delete to the trash, git' },
  'store.tags-retired': { outcome: 'new', after: 'its tags are set aside', in: 'delete to the trash, git' },
  'store.recovered': {
    outcome: 'either',
    after: 'a change that was cut off is final, or forgotten',
    in: 'upload with migrations, git',
    repair: true,
  },
  'sweep.materialization': {
    outcome: 'either',
    after: 'code that belongs to no version is removed',
    in: 'upload with migrations, git',
    repair: true,
  },
  ...AUTHORING_POINTS,
  'commit.due': { outcome: 'either', after: 'the statements of a group are run', in: 'preferences' },
  'commit.done': { outcome: 'either', after: 'the group is committed', in: 'preferences' },
  'close.due': { outcome: 'same', after: 'a database is to be closed', in: 'stop' },
  'close.checkpointed': { outcome: 'same', after: 'its log is copied and emptied', in: 'stop' },
  'stop.step': { outcome: 'same', after: 'a part of the gateway is stopped', in: 'stop' },
  'stop.stopped': { outcome: 'same', after: 'every part is', in: 'stop' },
  'stop.done': { outcome: 'same', after: 'daemon.json is removed', in: 'stop' },
};

/** Files that are replaced through `file.*`, each with an operation that does it: the points are passed for each of them. */
export const FILES: Record<string, string> = {
  'token.bin': 'token rotation',
  'settings.json': 'settings',
  '_registry.json': 'delete to the trash',
  'current.json': 'rollback',
  'pending.json': 'upload with migrations',
  'incoming.json': 'upload with migrations',
  disposable: 'delete with purge',
  'profile.json': 'first start',
  'daemon.json': 'first start',
  'automation.json': 'switching an automation off',
  'webhook-keys.json': 'minting a webhook',
  '_store.json': 'first start, git',
  'active-main': 'upload with migrations, git',
  'main.json': 'upload with migrations, git',
  'fresh.json': 'first upload, git',
  'gone.json': 'delete to the trash, git',
  ...AUTHORING_FILES,
};

/** The table of points.md. */
export function pointsTable(): string {
  const rows = Object.entries(POINTS).map(([point, row]) => [
    `\`${point}\``,
    row.after,
    row.repair ? `repair after: ${row.in}` : row.in,
    row.outcome,
  ]);
  return table(['Point', 'Just done', 'Crashed in', 'Found afterwards'], rows);
}

/** `file.synced:token.bin` → `file.synced`. */
export function kindOf(point: string): string {
  return point.split(':', 1)[0] as string;
}

/** Points that the operation should pass without any crash, by the tables above. */
export function expectedIn(operation: string): string[] {
  const points = Object.entries(POINTS).filter(([, row]) => row.in === operation && !row.repair);
  const steps = Object.keys(POINTS).filter((point) => /^file\.(?!removed)/.test(point));
  const files = Object.keys(FILES).filter((file) => FILES[file] === operation);
  return [
    ...points.map(([point]) => point).filter((point) => !steps.includes(point)),
    ...files.flatMap((file) => steps.map((step) => `${step}:${file}`)),
  ];
}
