"""What the build of the documentation makes from code: tables of the reference, and the pictures of the pages."""
