/** What several tools have in common. */

export const PHOTO = 'id, file, thumbnail, name, type, size, width, height, caption, added_at AS addedAt';

/** 404: it was removed meanwhile, perhaps in another window. */
export const unknown = (id) => ({
  status: 404,
  body: { code: 'UNKNOWN_PHOTO', message: `There is no photo ${id}; it may have been removed.` },
});
