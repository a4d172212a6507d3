"""The one door for people: names in, names out; shared by the command line, the web and notebooks."""
