"""SQL that makes a database of the newest schema one of an older."""

UNDO_8 = """
ALTER TABLE models ADD COLUMN spec BLOB NOT NULL DEFAULT x'';
UPDATE models SET spec = (SELECT spec FROM specs WHERE model = id);
ALTER TABLE models DROP COLUMN described;
ALTER TABLE models DROP COLUMN summary;
DROP TABLE specs;
"""
UNDO_7 = f"{UNDO_8} DROP TABLE documents;"
UNDO_6 = f"{UNDO_7} DROP TABLE probe;"
UNDO_5 = f"{UNDO_6} DROP TABLE solutions;"
