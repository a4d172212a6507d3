"""Records to pictures: files for matplotlib and the browser, and text for the terminal."""
