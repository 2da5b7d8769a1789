export default async function stats({ db }) {
  return db.get(`
    SELECT (SELECT count(*) FROM bookmarks) AS total,
           (SELECT count(*) FROM bookmarks WHERE later = 1) AS later,
           (SELECT count(*) FROM bookmarks WHERE dead = 1) AS dead`);
}
