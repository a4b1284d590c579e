"""`make rehearse`: a grid on the doubles, then every incident, with a narrator."""
